package vm

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Form is a form that makes or edits a VM. Its fields have the names that the API has for them, and so has what is wrong.
type Form struct {
	Typed         url.Values // as they are shown; of the memory, a number and its unit
	Errors        kit.Errors
	Edits         bool     // a VM that is there, else a new one
	On            bool     // and its guest is on
	MayOvercommit bool     // see control.CreateVM
	SeesHosts     bool     // who looks does
	RunsHosts     bool     // who looks may change infrastructure: see fleet.Field.Reserved
	VM            fleet.VM // that is edited
	Wizard        Wizard
	CPUModels     []fleet.CPUModelUse // that guests can have

	Specs []fleet.Customization // that a new VM's first boot can be by

	From *From // what the new VM is made from, beside images; nil: nothing

	Projects, Hosts, Pools, Images, ISOs, Networks, LUNs, Discs, Files kit.Choices

	Default fleet.VMDefaults // what is shown as chosen where nothing is
}

// From is what the form of a new VM was filled from.
type From struct {
	Title, Back string
	Note        string            // in a sentence
	Sent        map[string]string // hidden in the form: from.templateId, …
	Disks       []string          // of a clone: whose each of the disks is a copy, in words; nil: the form's own choice
	HostName    string            // of a clone: where it is made; empty: as everywhere
	HostID      fleet.HostID      // of an appliance: which host makes it
	NICs        []string          // of an appliance: what each of its NICs was, in words
	Needs, Left []string          // of an appliance: what its guest needs here, and what is not taken over, a sentence each
}

// Title and back are the form's heading, and where Cancel leads.
func (f Form) Title() string {
	if f.From != nil {
		return f.From.Title
	}
	return "New VM"
}

func (f Form) back() string {
	if f.From != nil {
		return f.From.Back
	}
	return "/vms"
}

// cloned is whose copy disk i is; empty: nobody's.
func (f Form) cloned(i string) string {
	n, err := strconv.Atoi(i)
	if f.From == nil || err != nil || n >= len(f.From.Disks) {
		return ""
	}
	return f.From.Disks[n]
}

// was is what a NIC that comes from elsewhere was; empty: nothing.
func (f Form) was(at string) string {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(at, "spec.nics["), "]"))
	if f.From == nil || err != nil || n >= len(f.From.NICs) {
		return ""
	}
	return f.From.NICs[n] + "."
}

// kept are the hidden fields of a NIC, which the form does not show: what passes it.
func (f Form) kept(at string) []kit.Sent {
	var out []kit.Sent
	if f.Edits {
		return nil
	}
	for name, texts := range f.Typed {
		rest, ok := strings.CutPrefix(name, at+".")
		if ok && len(texts) > 0 && (strings.HasPrefix(rest, "securityGroups[") || rest == "antiSpoofing") {
			out = append(out, kit.Sent{Name: name, Value: texts[0]})
		}
	}
	slices.SortFunc(out, func(a, b kit.Sent) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// keptWords says what of it people know.
func keptWords(kept []kit.Sent) string {
	n := 0
	for _, s := range kept {
		if strings.Contains(s.Name, ".securityGroups[") {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return "In " + kit.Count(n, "security group") + " as before."
}

// several is how many VMs are typed, in words.
func (f Form) several() string {
	n, err := strconv.Atoi(strings.TrimSpace(f.Typed.Get("count")))
	switch {
	case err != nil || n <= 1:
		return "one VM"
	case f.Typed.Get("first") != "":
		return kit.Count(n, "VM") + ", from number " + f.Typed.Get("first")
	}
	return kit.Count(n, "VM")
}

func (f Form) severalOpen() bool {
	return f.several() != "one VM" || f.Errors.At("count") != "" || f.Errors.At("first") != ""
}

// field is one input with what is typed in it, what is wrong with it or below it, and from when on an edit of it counts.
func (f Form) field(name string, in kit.Field) kit.Field {
	in.Name = name
	if texts := f.Typed[name]; len(texts) > 0 {
		in.Value = texts[0]
	}
	if in.Error == "" {
		in.Error = f.Errors.Under(name)
	}
	if of, ok := fleet.FieldOf(strings.TrimPrefix(name, "spec.")); f.Edits && !strings.Contains(name, "[") {
		in.When = fleet.Now
		if ok && f.On {
			in.When = of.On
		}
		if room := f.room(of.Name); room != "" {
			in.When, in.Hint = "", room
		}
	}
	return in
}

// unit is that of the memory that is typed.
func (f Form) unit() string {
	if texts := f.Typed["spec.memoryMiB"]; len(texts) > 1 {
		return texts[1]
	}
	return "GiB"
}

// rows are the numbers of a list's rows.
func (f Form) rows(list string) []string {
	var out []string
	for name := range f.Typed {
		rest, ok := strings.CutPrefix(name, list+"[")
		number, _, closed := strings.Cut(rest, "]")
		if n, err := strconv.Atoi(number); ok && closed && err == nil {
			for len(out) <= n {
				out = append(out, strconv.Itoa(len(out)))
			}
		}
	}
	return out
}

// Volume is a volume as a choice's value.
func Volume(pool fleet.PoolID, volume string) string { return string(pool) + "/" + volume }

// LibraryImage is a version of an image of the library as a choice's value.
func LibraryImage(image fleet.ImageID, version fleet.ImageVersionID) string {
	return libraryPrefix + string(image) + ":" + string(version)
}

const libraryPrefix = "image:"

// LibraryImageOf reads LibraryImage, where a volume's pool would stand.
func LibraryImageOf(value fleet.PoolID) (fleet.ImageID, fleet.ImageVersionID, bool) {
	rest, ok := strings.CutPrefix(string(value), libraryPrefix)
	image, version, _ := strings.Cut(rest, ":")
	return fleet.ImageID(image), fleet.ImageVersionID(version), ok
}

var firmwares = []kit.Option{{Value: "uefi", Text: "UEFI"}, {Value: "bios", Text: "BIOS"}}

var units = []kit.Option{{Value: "GiB", Text: "GiB"}, {Value: "MiB", Text: "MiB"}}

var diskSources = []kit.Option{{Value: "empty", Text: "Empty disk"}, {Value: "image", Text: "Copy of an image"}, {Value: "overlay", Text: "Overlay on an image"}}

// sources are what a disk can be; a volume that is there only where there is one to choose, or was.
func (f Form) sources() []kit.Option {
	if len(f.LUNs.Options) < 2 {
		return diskSources
	}
	return append(slices.Clone(diskSources), kit.Option{Value: "lun", Text: "Existing volume"})
}

// first is the first of some fields' errors.
func first(e kit.Errors, paths ...string) string {
	for _, p := range paths {
		if text := e.At(p); text != "" {
			return text
		}
	}
	return ""
}

// firmware is the choice of it, closed while a guest would have to be off.
func (f Form) firmware() kit.Field {
	in := kit.Field{Label: "Firmware"}
	if of, ok := fleet.FieldOf("firmware"); ok && f.On && of.On == fleet.PowerOff {
		in.Attrs = templ.Attributes{"disabled": true}
	}
	return in
}

// poolError is what is wrong with where a disk is to be made.
func (f Form) poolError(at string) string {
	if f.Typed.Get(at+".source") == "lun" {
		return ""
	}
	return first(f.Errors, at+".poolId", at+".volume")
}
