// Package vmxml reads what somebody has pasted as libvirt's XML of a domain, on the portal and without any host: what a VM's spec can say becomes it, and
// what it cannot is listed line by line. It is pure, and strict: it follows no entity, opens nothing, and takes no more than its bounds.
package vmxml

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Bounds of what is read.
const (
	MaxText     = 60 << 10 // bytes: what a form may have is little more
	maxDepth    = 24
	maxElements = 4000
	maxAttrs    = 32
	maxNotes    = 500
)

// Result is what a definition says, in the words of a spec.
type Result struct {
	Name, Description string
	Spec              fleet.VMSpec // without disks and the ISO: see Disks
	Disks             []Disk
	Notes             []Note
}

// Disk is a disk or a drive of a definition, in its order.
type Disk struct {
	Line   int
	Target string     // "vda"
	As     fleet.Disk // how the guest has it: the fields of fleet.DiskFields. Of a drive only the boot order counts
	CDROM  bool
	Floppy bool
	Path   string // of a file or a device of the host; empty: it is none
	Pool   string // of a volume that is named by its pool
	Volume string
}

// Kind says what became of a line.
type Kind string

const (
	Left    Kind = "left"    // a VM here has no such thing: it is left out
	Usual   Kind = "usual"   // every VM has it, or its host chooses it
	Refused Kind = "refused" // it reaches beyond the VM: into its host, or past Quantix
)

// Note is a line that is not taken over as it stands.
type Note struct {
	Line int
	At   string // "devices/hostdev"
	Kind Kind
	Text string // a sentence; it repeats nothing that may be secret
}

// Beyond reports whether something in it reaches beyond the VM.
func (r Result) Beyond() bool {
	return slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Kind == Refused })
}

// element is one of the XML, with what is in it.
type element struct {
	line     int
	name, at string // at: with those that it is in, without the domain itself
	attrs    map[string]string
	text     string
	in       []*element
	foreign  bool // of another namespace
}

// attr is the value of its attribute; of nil it is empty.
func (e *element) attr(name string) string {
	if e == nil {
		return ""
	}
	return e.attrs[name]
}

// first is the first element of that name in it; nil: none. It may be asked of nil.
func (e *element) first(name string) *element {
	if e == nil {
		return nil
	}
	for _, in := range e.in {
		if in.name == name && !in.foreign {
			return in
		}
	}
	return nil
}

// content is the text in it; of nil it is empty.
func (e *element) content() string {
	if e == nil {
		return ""
	}
	return e.text
}

func (e *element) has(attr string) bool { return e != nil && e.attrs[attr] != "" }

func wrong(line int, format string, args ...any) error {
	return fleet.Errorf(fleet.Invalid, "Line %d: "+format, append([]any{line}, args...)...)
}

// parse reads one domain, and refuses what is no plain XML.
func parse(text string) (*element, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, fleet.Errorf(fleet.Invalid, "Paste the XML of a domain, as virsh dumpxml prints it.")
	case len(text) > MaxText:
		return nil, fleet.Errorf(fleet.Invalid, "The XML has more than %d KiB. Leave out what the VM does not need.", MaxText>>10)
	case strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text:
		return nil, fleet.Errorf(fleet.Invalid, "This is no text in UTF-8.")
	}
	d := xml.NewDecoder(strings.NewReader(text))
	d.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, errors.New("only UTF-8 is read") }
	var root *element
	var open []*element
	count := 0
	for {
		line, _ := d.InputPos()
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, wrong(line, "this is no well-formed XML: %s.", plain(err))
		}
		switch t := t.(type) {
		case xml.Directive:
			return nil, wrong(line, "a document type is not read, nor are entities. Remove it.")
		case xml.ProcInst:
			if t.Target != "xml" || root != nil || len(open) > 0 {
				return nil, wrong(line, "processing instructions are not read. Remove it.")
			}
		case xml.StartElement:
			if count++; count > maxElements || len(open) == maxDepth || len(t.Attr) > maxAttrs {
				return nil, wrong(line, "this has more elements, or deeper ones, than a VM needs.")
			}
			e, err := begin(t, line, open)
			if err != nil {
				return nil, err
			}
			switch {
			case len(open) > 0:
				open[len(open)-1].in = append(open[len(open)-1].in, e)
			case root != nil:
				return nil, wrong(line, "behind the domain there is more. Paste one domain alone.")
			case e.name != "domain" || e.foreign:
				return nil, wrong(line, "the outermost element is <%s>, not <domain>.", cut(t.Name.Local))
			default:
				root = e
			}
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(t)
			} else if strings.TrimSpace(string(t)) != "" {
				return nil, wrong(line, "there is text outside of the domain.")
			}
		}
	}
	if root == nil {
		return nil, fleet.Errorf(fleet.Invalid, "There is no domain in it. Paste what virsh dumpxml prints.")
	}
	return root, nil
}

func begin(t xml.StartElement, line int, open []*element) (*element, error) {
	e := &element{line: line, name: t.Name.Local, attrs: map[string]string{}, foreign: t.Name.Space != ""}
	for _, o := range open[min(1, len(open)):] {
		e.at += o.name + "/"
	}
	if len(open) > 0 {
		e.at += t.Name.Local
	}
	for _, a := range t.Attr {
		if a.Name.Space != "" || a.Name.Local == "xmlns" {
			continue
		}
		if _, twice := e.attrs[a.Name.Local]; twice {
			return nil, wrong(line, "<%s> has %s twice.", cut(e.name), cut(a.Name.Local))
		}
		e.attrs[a.Name.Local] = a.Value
	}
	return e, nil
}

// plain is what the reader says, without its own line, which is the one behind.
func plain(err error) string {
	if bad, ok := errors.AsType[*xml.SyntaxError](err); ok {
		return cut(bad.Msg)
	}
	return cut(err.Error())
}

// cut is text that a sentence can hold.
func cut(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return text
}
