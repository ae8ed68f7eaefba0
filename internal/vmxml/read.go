// Package vmxml converts pasted libvirt domain XML into a VM's spec, on the portal and without a host. It reports each
// line that the spec cannot represent. It resolves no entities, opens no files, and limits the size of the input.
package vmxml

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Limits of the input.
const (
	MaxText     = 60 << 10 // bytes, close to the limit of a form
	maxDepth    = 24
	maxElements = 4000
	maxAttrs    = 32
	maxNotes    = 500
)

// Result is a definition converted into a spec.
type Result struct {
	Name, Description string
	Spec              fleet.VMSpec // without disks and ISO: see Disks
	Disks             []Disk
	Notes             []Note
}

// Disk is a disk or drive of a definition. Result.Disks has them in the definition's order.
type Disk struct {
	Line   int
	Target string     // "vda"
	As     fleet.Disk // fields of fleet.DiskFields; for a drive only the boot order matters
	CDROM  bool
	Floppy bool
	Path   string // path of a file or device on the host; empty: the source is neither
	Pool   string // name of the pool, if the source is a volume in a pool
	Volume string
}

// NoteKind is the reason why a line was dropped.
type NoteKind string

const (
	Left    NoteKind = "left"    // dropped, because a VM here has no such setting
	Usual   NoteKind = "usual"   // dropped, because every VM has the setting or the host chooses it
	Refused NoteKind = "refused" // dropped, because it reaches outside the VM: into the host, or past Quantix
)

// Note describes a line of the definition that was dropped or changed.
type Note struct {
	Line int
	At   string // "devices/hostdev"
	Kind NoteKind
	Text string // a sentence without secrets
}

// ReachesOutsideVM reports whether any line of the definition reaches outside the VM.
func (r Result) ReachesOutsideVM() bool {
	return slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Kind == Refused })
}

// element is an XML element with its children.
type element struct {
	line     int
	name, at string // at: path of the element below the domain element
	attrs    map[string]string
	text     string
	children []*element
	foreign  bool // the element belongs to an XML namespace other than libvirt's
}

// attr returns an attribute's value; empty for a nil element.
func (e *element) attr(name string) string {
	if e == nil {
		return ""
	}
	return e.attrs[name]
}

// firstChild returns the first child element with that name, or nil. The receiver may be nil.
func (e *element) firstChild(name string) *element {
	if e == nil {
		return nil
	}
	for _, in := range e.children {
		if in.name == name && !in.foreign {
			return in
		}
	}
	return nil
}

// content returns the element's text; empty for a nil element.
func (e *element) content() string {
	if e == nil {
		return ""
	}
	return e.text
}

func (e *element) hasAttr(attr string) bool { return e != nil && e.attrs[attr] != "" }

func lineError(line int, format string, args ...any) error {
	return fleet.Errorf(fleet.Invalid, "Line %d: "+format, append([]any{line}, args...)...)
}

// parseDomain parses the XML of one domain. It refuses document types, entities and processing instructions.
func parseDomain(text string) (*element, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, fleet.Errorf(fleet.Invalid, "Paste the XML of a domain, as virsh dumpxml prints it.")
	case len(text) > MaxText:
		return nil, fleet.Errorf(fleet.Invalid, "The XML has more than %d KiB. Leave out what the VM does not need.", MaxText>>10)
	case strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text:
		return nil, fleet.Errorf(fleet.Invalid, "The XML must be UTF-8 text without NUL characters.")
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
			return nil, lineError(line, "this is no well-formed XML: %s.", parserMessage(err))
		}
		switch t := t.(type) {
		case xml.Directive:
			return nil, lineError(line, "a document type is not read, nor are entities. Remove it.")
		case xml.ProcInst:
			if t.Target != "xml" || root != nil || len(open) > 0 {
				return nil, lineError(line, "processing instructions are not read. Remove it.")
			}
		case xml.StartElement:
			if count++; count > maxElements || len(open) == maxDepth || len(t.Attr) > maxAttrs {
				return nil, lineError(line, "this has more elements, or deeper ones, than a VM needs.")
			}
			e, err := newElement(t, line, open)
			if err != nil {
				return nil, err
			}
			switch {
			case len(open) > 0:
				open[len(open)-1].children = append(open[len(open)-1].children, e)
			case root != nil:
				return nil, lineError(line, "there is more text after the domain. Paste a single domain.")
			case e.name != "domain" || e.foreign:
				return nil, lineError(line, "the outermost element is <%s>, not <domain>.", shortenForError(t.Name.Local))
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
				return nil, lineError(line, "there is text outside of the domain.")
			}
		}
	}
	if root == nil {
		return nil, fleet.Errorf(fleet.Invalid, "The text contains no domain. Paste what virsh dumpxml prints.")
	}
	return root, nil
}

func newElement(t xml.StartElement, line int, open []*element) (*element, error) {
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
			return nil, lineError(line, "<%s> has %s twice.", shortenForError(e.name), shortenForError(a.Name.Local))
		}
		e.attrs[a.Name.Local] = a.Value
	}
	return e, nil
}

// parserMessage returns the XML parser's message without its line number, which may be too low.
func parserMessage(err error) string {
	if bad, ok := errors.AsType[*xml.SyntaxError](err); ok {
		return shortenForError(bad.Msg)
	}
	return shortenForError(err.Error())
}

// shortenForError shortens a text for an error message.
func shortenForError(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return text
}
