package vm

import (
	"quantix/internal/quota"
	"quantix/internal/vmedit"
	"quantix/views/kit"
)

// Wizard is the data of a new VM's form besides the form fields: source, preset, notes and summary.
type Wizard struct {
	Source      vmedit.VMSource
	Preset      string
	Notes       []ImportNote  // notes about imported XML
	XMLImported bool          // XML was imported
	Summary     *NewVMSummary // nil: the page requests the summary later
}

// ImportNote is a note about a line of imported XML.
type ImportNote struct {
	Line     int
	At, Text string
	Kind     string // "left", "usual" or "refused"
}

// NewVMSummary describes the VM that the form would create, and where.
type NewVMSummary struct {
	Facts    []SummaryFact
	Wrong    []string // errors to correct
	Placed   bool
	Host     string // empty: the actor may not see hosts
	Others   []UnchosenHost
	More     int          // number of hosts that Others does not list
	Why      string       // why no host is suitable
	Quota    []quota.Line // limits of the project that the VM counts against
	Approval bool         // the project's new VMs need approval
	API      string       // the new VM as an API call
	YAML     string       // the new VM as a YAML document
}

// quotaAfterText is a limit after the VM is created: "6 of 8 vCPUs", "12 GiB of memory, soft limit 10 GiB".
func quotaAfterText(l quota.Line) string {
	after := l.Unit.Text(l.After)
	if l.Hard != nil {
		return after + " of " + l.Unit.Text(*l.Hard) + " " + l.Noun
	}
	return after + " " + l.Noun + ", soft limit " + l.Unit.Text(*l.Soft)
}

func quotaAfterIcon(l quota.Line) string {
	if l.IsRefused() {
		return "circle-x"
	}
	if l.State() == quota.OverSoft {
		return "triangle-alert"
	}
	return "circle-check"
}

// SummaryFact is one row of the summary.
type SummaryFact struct{ Word, Text string }

// UnchosenHost is a host that placement did not choose.
type UnchosenHost struct {
	Name, Why string
	Suitable  bool
}

// firstDiskField is the path of the disk whose image is chosen at the top of the form.
const firstDiskField = "spec.disks[0]"

// isImageChosenAtTop reports whether this disk's image is chosen next to the VM's name, at the top of the form.
func (f Form) isImageChosenAtTop(at string) bool {
	return at == firstDiskField && !f.Edits && f.Source == nil && f.Wizard.Source == vmedit.SourceImage && f.Typed.Has(at+".source")
}

// isISOChosenAtTop reports whether the ISO of the CD-ROM drive is chosen at the top of the form.
func (f Form) isISOChosenAtTop() bool {
	return !f.Edits && f.Source == nil && f.Wizard.Source == vmedit.SourceISO
}

// notesOfKind are the notes of one kind, in order.
func (w Wizard) notesOfKind(kind string) (out []ImportNote) {
	for _, n := range w.Notes {
		if n.Kind == kind {
			out = append(out, n)
		}
	}
	return out
}

func (w Wizard) sourceHint() string {
	for _, s := range vmedit.VMSources {
		if s.Key == w.Source {
			return s.Hint
		}
	}
	return ""
}

// presetHint describes the settings of the chosen preset; empty: no preset.
func (w Wizard) presetHint() string {
	if p, ok := vmedit.PresetByKey(w.Preset); ok {
		return p.Hint + " You can change all values below."
	}
	return "A preset sets typical values for a type of guest."
}

// otherHostsText describes how many other hosts could run the VM.
func (s NewVMSummary) otherHostsText() string {
	could := 0
	for _, o := range s.Others {
		if o.Suitable {
			could++
		}
	}
	return kit.CountText(could, "other host") + " suitable, " + kit.CountText(len(s.Others)-could, "host") + " not suitable."
}

func hostIcon(o UnchosenHost) string {
	if o.Suitable {
		return "circle-check"
	}
	return "circle-x"
}
