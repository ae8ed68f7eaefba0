package vm

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Wizard is what the form of a new VM has beside its fields.
type Wizard struct {
	Source  fleet.VMSource
	Preset  string
	Notes   []Imported // of XML that was read
	Read    bool       // some was
	Summary *Summary   // nil: it is asked for by the page itself
}

// Imported is a line of somebody's XML that is not taken over as it stands.
type Imported struct {
	Line     int
	At, Text string
	Kind     string // "left", "usual" or "refused"
}

// Summary is what would be made, and where.
type Summary struct {
	Facts  []Fact
	Wrong  []string // what is still to be corrected
	Placed bool
	Host   string // empty: who looks sees no hosts
	Others []Other
	More   int
	Why    string
	API    string // the same as a call
	YAML   string // and as an object
}

// Fact is one line of what would be made.
type Fact struct{ Word, Text string }

// Other is a host that it would not be made on.
type Other struct {
	Name, Why string
	Could     bool
}

// firstDisk is the disk that is made from the image which the form asks for first.
const firstDisk = "spec.disks[0]"

// picksImage reports whether the image of this disk is chosen beside the VM's name, where the form begins.
func (f Form) picksImage(at string) bool {
	return at == firstDisk && !f.Edits && f.From == nil && f.Wizard.Source == fleet.SourceImage && f.Typed.Has(at+".source")
}

// picksISO reports the same of the ISO in the CD-ROM drive.
func (f Form) picksISO() bool {
	return !f.Edits && f.From == nil && f.Wizard.Source == fleet.SourceISO
}

// told are the notes of a kind, in their order.
func (w Wizard) told(kind string) (out []Imported) {
	for _, n := range w.Notes {
		if n.Kind == kind {
			out = append(out, n)
		}
	}
	return out
}

func (w Wizard) hint() string {
	for _, s := range fleet.VMSources {
		if s.Key == w.Source {
			return s.Hint
		}
	}
	return ""
}

// presetHint says what the preset that was chosen has set.
func (w Wizard) presetHint() string {
	if p, ok := fleet.PresetNamed(w.Preset); ok {
		return p.Hint + " All of it can be changed below."
	}
	return "A preset fills in what a kind of guest mostly wants."
}

// others says how many hosts could take it besides.
func (s Summary) others() string {
	could := 0
	for _, o := range s.Others {
		if o.Could {
			could++
		}
	}
	return kit.Count(could, "other host") + " suitable, " + kit.Count(len(s.Others)-could, "host") + " cannot."
}

func hostIcon(o Other) string {
	if o.Could {
		return "circle-check"
	}
	return "circle-x"
}
