package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of templates.
const (
	MaxProjectTemplates = 100
	MaxTemplateVersions = 50
)

// Template is a VM's spec without its identity, with an image for each disk. It has versions and belongs to a project.
type Template struct {
	ID          TemplateID `json:"id"`
	Name        string     `json:"name"`
	ProjectID   ProjectID  `json:"projectId,omitempty"` // owning project; empty: the user may not see the project
	ProjectName string     `json:"projectName,omitempty"`
	Description string     `json:"description,omitempty"`
	OS          OSFacts    `json:"os"`
	CreatedBy   string     `json:"createdBy,omitempty"`
	CreatedAt   time.Time  `json:"createdAt"`
}

// TemplateVersion is one version of a template. Its spec never changes: each disk names an image version and a proposed
// pool.
type TemplateVersion struct {
	ID           TemplateVersionID `json:"id"`
	TemplateID   TemplateID        `json:"templateId"`
	Number       int               `json:"number"` // from 1; the highest is the newest
	Spec         VMSpec            `json:"spec"`
	Source       string            `json:"source,omitempty"`       // VM that it was created from, as text
	Note         string            `json:"note,omitempty"`         // note of a user
	DeprecatedAt *time.Time        `json:"deprecatedAt,omitempty"` // set: no VM can be created from the version any more
	DeprecatedBy string            `json:"deprecatedBy,omitempty"`
	CreatedBy    string            `json:"createdBy,omitempty"`
	CreatedAt    time.Time         `json:"createdAt"`
	Disks        []TemplateDisk    `json:"disks"` // images of the spec's disks, in the same order
	// VMs with a disk created from the version: only VMs that the user may see, and not all if there are many
	VMs          []TemplateVM  `json:"vms"`
	Others       int           `json:"others"`       // number of such VMs in projects that the user may not see
	OthersLinked int           `json:"othersLinked"` // number of Others that are linked clones
	Actions      []ActionState `json:"actions,omitempty"`
}

// TemplateDisk is the image of one disk of a template version.
type TemplateDisk struct {
	ImageID   ImageID        `json:"imageId"`
	VersionID ImageVersionID `json:"versionId"`
	SizeBytes int64          `json:"sizeBytes"` // virtual size; 0: no host has reported it yet
	State     CopyState      `json:"state"`     // state of the image's best copy
	Why       string         `json:"why,omitempty"`
	// Own: the image was created for the template version and is deleted with the version.
	Own        bool     `json:"own"`
	Where      []string `json:"where,omitempty"`      // locations of the image's copies; only for users who may see hosts
	AllocBytes int64    `json:"allocBytes,omitempty"` // allocation of one copy
}

// TemplateVM is a VM created from a template version.
type TemplateVM struct {
	ID     VMID   `json:"id"`
	Name   string `json:"name"`
	Linked bool   `json:"linked"` // linked clone: a disk is backed by the version's image
}

// Usable reports whether VMs can be created from the disk's image.
func (d TemplateDisk) Usable() bool { return d.State == CopyReady || d.State == CopyUnverified }

// WhyUnusable returns why no VM can be created from the version now; empty: it can.
func (v TemplateVersion) WhyUnusable() string {
	if v.DeprecatedAt != nil {
		return "The version is deprecated and allows no new VMs."
	}
	for i, d := range v.Disks {
		switch {
		case d.Usable():
		case d.State == CopyInProgress:
			return fmt.Sprintf("The image of disk %d is still being created.", i+1)
		default:
			return fmt.Sprintf("The image of disk %d cannot be read now. %s", i+1, d.Why)
		}
	}
	return ""
}

// IsInProgress reports whether a host is still writing an image of the version.
func (v TemplateVersion) IsInProgress() bool {
	for _, d := range v.Disks {
		if d.State == CopyInProgress {
			return true
		}
	}
	return false
}

// LinkedClones returns the names of those linked clones that the user may see, and the number of all linked clones.
func (v TemplateVersion) LinkedClones() (names []string, n int) {
	for _, vm := range v.VMs {
		if vm.Linked {
			names = append(names, "VM "+vm.Name)
		}
	}
	return names, len(names) + v.OthersLinked
}

// linkedClonesRefusal returns why the version's images must not be deleted; empty: no linked clone is backed by them.
func (v TemplateVersion) linkedClonesRefusal() string {
	names, n := v.LinkedClones()
	switch {
	case n == 0:
		return ""
	case len(names) == 0:
		return fmt.Sprintf("Linked clones of other projects are backed by version %d and would be broken: %s. Ask an administrator.", v.Number, countWithUnit(n, "VM"))
	case n > len(names):
		names = append(names[:min(len(names), 5)], countWithUnit(n-len(names), "VM")+" of other projects")
	}
	return fmt.Sprintf("Linked clones are backed by version %d and would be broken: %s. Delete them first, or deprecate the version.", v.Number, joinFirstNames(names))
}

// SpecText returns the version's spec on one line: "2 vCPUs, 2 GiB, BIOS, 2 disks, 1 NIC".
func (v TemplateVersion) SpecText() string {
	s := v.Spec
	return strings.Join([]string{
		countWithUnit(s.CPUs, "vCPU"), FormatBytes(int64(s.MemoryMiB) << 20), strings.ToUpper(string(s.Firmware)), countWithUnit(len(s.Disks), "disk"), countWithUnit(len(s.NICs), "NIC"),
	}, ", ")
}

// TemplateView is a template as the API and pages show it.
type TemplateView struct {
	Template
	Grants   []ImageGrant      `json:"grants"`   // projects with access to the template, as far as the user may see them
	Versions []TemplateVersion `json:"versions"` // newest first
}

// PublishedToText returns the projects that the template is published to, as text.
func (v TemplateView) PublishedToText() string { return ImageView{Grants: v.Grants}.PublishedToText() }

// OpenToProject reports whether the project may use the template, by the grants that the user may see.
func (v TemplateView) OpenToProject(project ProjectID) bool {
	for _, g := range v.Grants {
		if g.ProjectID == "" || g.ProjectID == project {
			return true
		}
	}
	return false
}

// Newest returns the newest version that is not deprecated, or nil.
func (v TemplateView) Newest() *TemplateVersion {
	for i := range v.Versions {
		if v.Versions[i].DeprecatedAt == nil {
			return &v.Versions[i]
		}
	}
	return nil
}

// Version returns the version with the ID, or the newest for an empty ID; nil: no such version.
func (v TemplateView) Version(id TemplateVersionID) *TemplateVersion {
	if id == "" {
		return v.Newest()
	}
	for i := range v.Versions {
		if v.Versions[i].ID == id {
			return &v.Versions[i]
		}
	}
	return nil
}

// Actions that only templates and their versions have.
const (
	ActNewVM     Action = "new-vm"    // of a template or a version: create VMs from it
	ActDeprecate Action = "deprecate" // of a version: allow no new VMs from it
	ActOffer     Action = "offer"     // of a deprecated version: allow new VMs again
)

var templateActions = actionTable[TemplateView]{
	{ActNewVM, func(v TemplateView) string {
		newest := v.Newest()
		switch {
		case len(v.Versions) == 0:
			return "The template has no version. Create one from a VM."
		case newest == nil:
			return "All versions are deprecated. Offer one again, or create a new one from a VM."
		}
		return newest.WhyUnusable()
	}},
	{ActPublish, nil},
	{ActEdit, nil},
	{ActDelete, func(v TemplateView) string {
		for _, version := range v.Versions {
			if why := firstReason(version.linkedClonesRefusal(), version.beingCreatedRefusal()); why != "" {
				return why
			}
		}
		return ""
	}},
}

// Allows reports whether the template allows the action now; the string is the reason if not. Actions lists the state
// of every action.
func (v TemplateView) Allows(a Action) (bool, string) { return templateActions.allows(v, a) }
func (v TemplateView) Actions() []ActionState         { return templateActions.actionStates(v) }

func (v TemplateVersion) beingCreatedRefusal() string {
	if v.IsInProgress() {
		return fmt.Sprintf("An image of version %d is still being created. Wait until the task has ended.", v.Number)
	}
	return ""
}

var templateVersionActions = actionTable[TemplateVersion]{
	{ActNewVM, TemplateVersion.WhyUnusable},
	{ActDeprecate, func(v TemplateVersion) string {
		if v.DeprecatedAt != nil {
			return "The version is already deprecated."
		}
		return ""
	}},
	{ActOffer, func(v TemplateVersion) string {
		if v.DeprecatedAt == nil {
			return "The version is not deprecated."
		}
		return ""
	}},
	{ActDelete, func(v TemplateVersion) string { return firstReason(v.linkedClonesRefusal(), v.beingCreatedRefusal()) }},
}

// Allows reports whether the version allows the action now; the string is the reason if not. States lists the state of
// every action.
func (v TemplateVersion) Allows(a Action) (bool, string) { return templateVersionActions.allows(v, a) }

func (v TemplateVersion) ActionStates() []ActionState { return templateVersionActions.actionStates(v) }

// SubjectTemplate returns the subject of a template, which is also the key of its wake-ups.
func SubjectTemplate(id TemplateID) Subject { return SubjectOf(TypeTemplate, id) }

// CheckTemplateName adds an error at field if a template cannot have the name.
func CheckTemplateName(c *Checks, field, name string) {
	var named Checks
	if CheckImageName(&named, field, name); named.Err() != nil {
		c.Add(field, "%s", strings.ReplaceAll(named.fields[0].Message, "the image", "the template"))
	}
}

// IdentityFields are the fields that WithoutIdentity clears.
var IdentityFields = []string{"placement.overcommit", "iso", "boot.kernel", "boot.initrd", "boot.cmdline", "firstBoot", "hostDevices", "shares"}

// WithoutIdentity returns the spec without the VM's identity: power, media, disk volumes and MAC addresses. It removes
// the permission to start by overcommit, and resets a NIC's settings that follow a port group, and a disabled
// anti-spoofing, to the defaults of the user who creates the next VM.
func (s VMSpec) WithoutIdentity() VMSpec {
	s.Power, s.ISO, s.FirstBoot, s.Placement.Overcommit = "", nil, VMFirstBoot{}, false
	s.HostDevices, s.Shares, s.Boot.Kernel, s.Boot.Initrd, s.Boot.Cmdline = nil, nil, nil, nil, ""
	s.Drives = slices.Clone(s.Drives)
	for i := range s.Drives {
		s.Drives[i].Medium = nil
	}
	disks := make([]Disk, len(s.Disks))
	for i, d := range s.Disks {
		d.Volume, d.Image, d.Existing, d.Shareable, d.Encryption = "", nil, false, false, ""
		d.ImageID, d.VersionID, d.ImageSHA256, d.Overlay, d.Serial = "", "", "", false, ""
		disks[i] = d
	}
	nics := make([]NIC, len(s.NICs))
	for i, n := range s.NICs {
		n.MAC = ""
		if n.DefaultGroups {
			n.SecurityGroups, n.DefaultGroups = nil, false
		}
		if n.DefaultAntiSpoofing || n.AntiSpoofing != nil && !*n.AntiSpoofing {
			n.AntiSpoofing, n.DefaultAntiSpoofing = nil, false
		}
		nics[i] = n
	}
	s.Disks, s.NICs = disks, nics
	return s
}

// NeedsTemporarySnapshot reports whether a copy of the VM's disks needs a temporary snapshot, because the guest may
// write to the disks or they consist of snapshot overlays.
func (v VMView) NeedsTemporarySnapshot() bool {
	on := v.HasGuest() || v.RequestedPower != "" && v.RequestedPower != Stopped
	return len(v.Spec.Disks) > 0 && (on || v.WhySnapshotsBlockDiskJobs() != "")
}

// whyNotCopyable returns why the VM's disks cannot be copied now; empty: they can be copied. what names the refused
// copy, such as "no image".
func (v VMView) whyNotCopyable(what string) string {
	if v.Phase == PhaseDeleting {
		return "The VM is being deleted."
	}
	for i, d := range v.Spec.Disks {
		if d.Encryption != "" {
			return fmt.Sprintf("Disk %d is encrypted with a passphrase that only its host has, so %s of it can be created.", i+1, what)
		}
		if d.Shareable {
			return fmt.Sprintf("Disk %d is shared with other VMs, so %s of it can be created.", i+1, what)
		}
		if d.Existing {
			return fmt.Sprintf("Disk %d is a LUN, so %s of it can be created.", i+1, what)
		}
		if why := d.whyRawNotCopied(); why != "" {
			return diskLabel(i) + " " + why
		}
		if v.MissingDiskFault(d.Ref()) != nil {
			return v.MissingDiskFault(d.Ref()).Text
		}
	}
	if v.NeedsTemporarySnapshot() {
		_, why := v.AllowsNewSnapshot(nil)
		return why
	}
	for _, d := range v.Spec.Disks {
		if ok, why := v.AllowsImage(d.Ref()); !ok {
			return why
		}
	}
	return ""
}

// AllowsTemplate reports whether a template can be created from the VM's current disks; the string is the reason if
// not.
func (v VMView) AllowsTemplate() (bool, string) {
	why := v.whyNotCopyable("no image")
	return why == "", why
}

// AllowsTemplateOfImages reports whether a template can be created from the images that the VM's disks were created
// from, regardless of the disks' current content. The string is the reason if not.
func (v VMView) AllowsTemplateOfImages() (bool, string) {
	if v.Phase == PhaseDeleting {
		return false, "The VM is being deleted."
	}
	for i, d := range v.Spec.Disks {
		if d.ImageID == "" || d.VersionID == "" {
			return false, fmt.Sprintf("Disk %d was not created from a library image. Create the template from copies of the VM's disks.", i+1)
		}
	}
	return true, ""
}

// AllowsClone reports whether the VM can be cloned now; the string is the reason if not. It does not check for
// unfinished snapshot jobs.
func (v VMView) AllowsClone() (bool, string) {
	why := v.whyNotCopyable("no copy")
	return why == "", why
}
