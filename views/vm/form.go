package vm

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/vmedit"
	"quantix/views/kit"
)

// Form is the form of a new or edited VM. Its fields and errors have the API's field names.
type Form struct {
	Typed          url.Values // shown values; memory is a number and a unit
	Errors         kit.Errors
	Limits         []quota.Line // of an edited VM: limits of the project after the edit
	Edits          bool         // edits an existing VM
	GuestRuns      bool         // the guest of the edited VM runs, so some edits take effect at the next start
	MayOvercommit  bool         // see control.CreateVM
	MaySeeHosts    bool         // the actor may see hosts
	MayChangeHosts bool         // the actor may change infrastructure: see fleet.Field.Reserved
	VM             fleet.VM     // edited VM
	Wizard         Wizard
	CPUModels      []fleet.CPUModelUse // CPU models available to guests
	Clusters       []fleet.Cluster     // of a new VM: all clusters
	HostCluster    fleet.ClusterID     // of a new VM: the chosen host's cluster; empty: no host, or the actor may not see hosts

	Specs []fleet.Customization // customization specs for the first boot of a new VM

	Source *NewVMSource // source of the new VM other than an image; nil: none

	Projects, Hosts, Pools, Images, ISOs, Networks, LUNs, Discs, Files, DeviceClasses kit.SelectChoices

	Default vmedit.Defaults // defaults that the form preselects
	Rules   flavor.Rules    // of a new VM: the project's rules and flavors

	MoreQuota string // of a new VM that the quota refuses: the dialog that asks for more
}

// NewVMSource is the source that the form of a new VM was prefilled from.
type NewVMSource struct {
	Title, Back string
	Note        string            // one sentence for the form
	Sent        map[string]string // hidden form fields: from.templateId, …
	Disks       []string          // of a clone: source of each disk, in words; nil: the user chooses the source of each disk
	HostName    string            // of a clone: host that creates it; empty: placement decides
	HostID      fleet.HostID      // of an appliance: host that creates it
	NICs        []string          // of an appliance: original network of each NIC, in words
	Needs, Left []string          // of an appliance: requirements of its guest, and settings that the import omits, one sentence each
}

// Title is the form's heading.
func (f Form) Title() string {
	if f.Source != nil {
		return f.Source.Title
	}
	return "New VM"
}

func (f Form) backPath() string {
	if f.Source != nil {
		return f.Source.Back
	}
	return "/vms"
}

// clonedDiskSource describes the original of disk i of a clone. It is empty if the disk is no copy.
func (f Form) clonedDiskSource(i string) string {
	n, err := strconv.Atoi(i)
	if f.Source == nil || err != nil || n >= len(f.Source.Disks) {
		return ""
	}
	return f.Source.Disks[n]
}

// originalNICNetwork names the network of a NIC in the imported appliance; empty: none.
func (f Form) originalNICNetwork(at string) string {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(at, "spec.nics["), "]"))
	if f.Source == nil || err != nil || n >= len(f.Source.NICs) {
		return ""
	}
	return f.Source.NICs[n] + "."
}

// hiddenNICFields are the hidden fields of a NIC's filter settings, which the form does not show.
func (f Form) hiddenNICFields(at string) []kit.FormValue {
	var out []kit.FormValue
	if f.Edits {
		return nil
	}
	for name, texts := range f.Typed {
		rest, ok := strings.CutPrefix(name, at+".")
		if ok && len(texts) > 0 && (strings.HasPrefix(rest, "securityGroups[") || rest == "antiSpoofing") {
			out = append(out, kit.FormValue{Name: name, Value: texts[0]})
		}
	}
	slices.SortFunc(out, func(a, b kit.FormValue) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// hiddenNICText describes the hidden NIC settings: "Keeps 2 security groups."
func hiddenNICText(kept []kit.FormValue) string {
	n := 0
	for _, s := range kept {
		if strings.Contains(s.Name, ".securityGroups[") {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return "Keeps " + kit.CountText(n, "security group") + "."
}

// vmCountText describes the typed number of VMs: "3 VMs, from number 5".
func (f Form) vmCountText() string {
	n, err := strconv.Atoi(strings.TrimSpace(f.Typed.Get("count")))
	switch {
	case err != nil || n <= 1:
		return "one VM"
	case f.Typed.Get("first") != "":
		return kit.CountText(n, "VM") + ", from number " + f.Typed.Get("first")
	}
	return kit.CountText(n, "VM")
}

func (f Form) isCountSectionOpen() bool {
	return f.vmCountText() != "one VM" || f.Errors.At("count") != "" || f.Errors.At("first") != ""
}

// field is the input with the given name: its typed value, its errors (also those of nested fields), and when an edit
// takes effect.
func (f Form) field(name string, in kit.Field) kit.Field {
	in.Name = name
	if texts := f.Typed[name]; len(texts) > 0 {
		in.Value = texts[0]
	}
	if in.Error == "" {
		in.Error = f.Errors.ForFieldOrBelow(name)
	}
	if of, ok := fleet.FieldByName(strings.TrimPrefix(name, "spec.")); f.Edits && !strings.Contains(name, "[") {
		in.TakesEffect = fleet.WhenNow
		if ok && f.GuestRuns {
			in.TakesEffect = of.TakesEffect
		}
		if room := f.hotPlugHint(of.Name); room != "" {
			in.TakesEffect, in.Hint = "", room
		}
	}
	return in
}

// memoryUnit is the typed unit of the memory size.
func (f Form) memoryUnit() string {
	if texts := f.Typed["spec.memoryMiB"]; len(texts) > 1 {
		return texts[1]
	}
	return "GiB"
}

// rowIndexes are the numbers of the rows of a list in the form.
func (f Form) rowIndexes(list string) []string {
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

// VolumeValue is a volume as the value of a form field.
func VolumeValue(pool fleet.PoolID, volume string) string { return string(pool) + "/" + volume }

// LibraryImageValue is an image version as the value of a form field.
func LibraryImageValue(image fleet.ImageID, version fleet.ImageVersionID) string {
	return libraryPrefix + string(image) + ":" + string(version)
}

const libraryPrefix = "image:"

// ParseLibraryImageValue parses a LibraryImageValue, which forms send in place of a pool.
func ParseLibraryImageValue(value fleet.PoolID) (fleet.ImageID, fleet.ImageVersionID, bool) {
	rest, ok := strings.CutPrefix(string(value), libraryPrefix)
	image, version, _ := strings.Cut(rest, ":")
	return fleet.ImageID(image), fleet.ImageVersionID(version), ok
}

var firmwareOptions = []kit.Option{{Value: "uefi", Text: "UEFI"}, {Value: "bios", Text: "BIOS"}}

var diskSources = []kit.Option{{Value: "empty", Text: "Empty disk"}, {Value: "image", Text: "Copy of an image"}, {Value: "overlay", Text: "Overlay on an image"}}

// diskSourceOptions are the kinds of sources for a new disk. An existing volume is offered only if there is one or it
// was already chosen.
func (f Form) diskSourceOptions() []kit.Option {
	if len(f.LUNs.Options) < 2 {
		return diskSources
	}
	return append(slices.Clone(diskSources), kit.Option{Value: "lun", Text: "Existing volume"})
}

// firstFieldError is the first error of the given fields.
func firstFieldError(e kit.Errors, paths ...string) string {
	for _, p := range paths {
		if text := e.At(p); text != "" {
			return text
		}
	}
	return ""
}

// firmwareField is the select of the firmware, which is disabled while the guest is running.
func (f Form) firmwareField() kit.Field {
	in := kit.Field{Label: "Firmware"}
	if of, ok := fleet.FieldByName("firmware"); ok && f.GuestRuns && of.TakesEffect == fleet.WhenPoweredOff {
		in.Attrs = templ.Attributes{"disabled": true}
	}
	return in
}

// poolError is the error of a new disk's pool.
func (f Form) poolError(at string) string {
	if f.Typed.Get(at+".source") == "lun" {
		return ""
	}
	return firstFieldError(f.Errors, at+".poolId", at+".volume")
}

// Fields of a request for a new VM.
const (
	ReasonField  = "reason"
	RequestField = "request"
)

// createWord is the word of the button that creates the VM.
func (f Form) createWord() string {
	if f.Rules.NeedsApproval() {
		return "Request VM"
	}
	return "Create VM"
}

// offersRequest reports whether the form of a refused VM offers to request the VM.
func (f Form) offersRequest() bool { return f.Errors.Any() && !f.MayChangeHosts }
