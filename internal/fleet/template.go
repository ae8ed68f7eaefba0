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

// Template is a VM's spec without its identity, in versions, with an image of the library for each disk. It belongs to a project.
type Template struct {
	ID          TemplateID `json:"id"`
	Name        string     `json:"name"`
	ProjectID   ProjectID  `json:"projectId,omitempty"` // whose it is; empty: a project's that the reader does not see
	ProjectName string     `json:"projectName,omitempty"`
	Description string     `json:"description,omitempty"`
	OS          OSFacts    `json:"os"`
	CreatedBy   string     `json:"createdBy,omitempty"`
	CreatedAt   time.Time  `json:"createdAt"`
}

// TemplateVersion is one state of a template. Its spec never changes: each disk names its image and version, and the pool that is proposed for it.
type TemplateVersion struct {
	ID           TemplateVersionID `json:"id"`
	TemplateID   TemplateID        `json:"templateId"`
	Number       int               `json:"number"` // from 1; the highest is the newest
	Spec         VMSpec            `json:"spec"`
	Source       string            `json:"source,omitempty"`       // of which VM it was made, in words
	Note         string            `json:"note,omitempty"`         // what people say of it
	DeprecatedAt *time.Time        `json:"deprecatedAt,omitempty"` // no VM is made from it any more
	DeprecatedBy string            `json:"deprecatedBy,omitempty"`
	CreatedBy    string            `json:"createdBy,omitempty"`
	CreatedAt    time.Time         `json:"createdAt"`
	Disks        []TemplateDisk    `json:"disks"`        // the images of the spec's disks, in its order
	VMs          []TemplateVM      `json:"vms"`          // some of the VMs with a disk that was made from it, as far as the reader may know
	Others       int               `json:"others"`       // how many of them are of projects that the reader does not see
	OthersLinked int               `json:"othersLinked"` // and how many of those have a disk that stands on it
	Actions      []ActionState     `json:"actions,omitempty"`
}

// TemplateDisk is the image of one disk of a version.
type TemplateDisk struct {
	ImageID    ImageID        `json:"imageId"`
	VersionID  ImageVersionID `json:"versionId"`
	SizeBytes  int64          `json:"sizeBytes"` // as a guest sees it; 0: no host has told it yet
	State      CopyState      `json:"state"`     // of the best of its copies
	Why        string         `json:"why,omitempty"`
	Own        bool           `json:"own"`                  // it was made for the template, and goes with its version
	Where      []string       `json:"where,omitempty"`      // its copies, for those who see hosts
	AllocBytes int64          `json:"allocBytes,omitempty"` // of one copy
}

// TemplateVM is a VM that was made from a version.
type TemplateVM struct {
	ID     VMID   `json:"id"`
	Name   string `json:"name"`
	Linked bool   `json:"linked"` // a disk of it stands on the version's image
}

// Offered reports whether VMs can be made of the disk's image.
func (d TemplateDisk) Offered() bool { return d.State == CopyReady || d.State == CopyUnverified }

// Unready is why no VM can be made from the version now; empty: it can.
func (v TemplateVersion) Unready() string {
	if v.DeprecatedAt != nil {
		return "It is deprecated: no VM is made from it any more."
	}
	for i, d := range v.Disks {
		switch {
		case d.Offered():
		case d.State == CopyComing:
			return fmt.Sprintf("The image of its disk %d is still being made.", i+1)
		default:
			return fmt.Sprintf("The image of its disk %d cannot be read now. %s", i+1, d.Why)
		}
	}
	return ""
}

// Coming reports whether a host is still making an image of it.
func (v TemplateVersion) Coming() bool {
	for _, d := range v.Disks {
		if d.State == CopyComing {
			return true
		}
	}
	return false
}

// Linked are the names of VMs whose disks stand on the version, and how many there are in all.
func (v TemplateVersion) Linked() (names []string, n int) {
	for _, vm := range v.VMs {
		if vm.Linked {
			names = append(names, "VM "+vm.Name)
		}
	}
	return names, len(names) + v.OthersLinked
}

// backedBy is why the version's images must stay; empty: nothing stands on them.
func (v TemplateVersion) backedBy() string {
	names, n := v.Linked()
	switch {
	case n == 0:
		return ""
	case len(names) == 0:
		return fmt.Sprintf("Linked clones of other projects stand on version %d and would be broken: %s. Ask an administrator.", v.Number, counted(n, "VM"))
	case n > len(names):
		names = append(names[:min(len(names), 5)], counted(n-len(names), "VM")+" of other projects")
	}
	return fmt.Sprintf("Linked clones stand on version %d and would be broken: %s. Delete them first, or deprecate the version.", v.Number, someOf(names))
}

// Words are the spec of the version on one line: "2 vCPUs, 2 GiB, BIOS, 2 disks, 1 network card".
func (v TemplateVersion) Words() string {
	s := v.Spec
	return strings.Join([]string{
		counted(s.CPUs, "vCPU"), Bytes(int64(s.MemoryMiB) << 20), strings.ToUpper(string(s.Firmware)), counted(len(s.Disks), "disk"), counted(len(s.NICs), "network card"),
	}, ", ")
}

// TemplateView is a template as people see it.
type TemplateView struct {
	Template
	Grants   []ImageGrant      `json:"grants"`   // to whom it is published, as far as the reader may know
	Versions []TemplateVersion `json:"versions"` // the newest first
}

// Published is to whom, in words.
func (v TemplateView) Published() string { return ImageView{Grants: v.Grants}.Published() }

// OpenTo reports whether the project may use it, as far as the reader may know.
func (v TemplateView) OpenTo(project ProjectID) bool {
	for _, g := range v.Grants {
		if g.ProjectID == "" || g.ProjectID == project {
			return true
		}
	}
	return false
}

// Newest is the newest version that is not deprecated; nil: there is none.
func (v TemplateView) Newest() *TemplateVersion {
	for i := range v.Versions {
		if v.Versions[i].DeprecatedAt == nil {
			return &v.Versions[i]
		}
	}
	return nil
}

// Version is the version of that id, or the newest where none is named; nil: there is none.
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

// What can be asked of templates and their versions, beside what can be asked of other nouns.
const (
	ActNewVM     Action = "new-vm"    // of a template, or of a version: make VMs from it
	ActDeprecate Action = "deprecate" // of a version: no VM is made from it any more
	ActOffer     Action = "offer"     // of a version that is deprecated: VMs are made from it again
)

var templateOffers = offers[TemplateView]{
	{ActNewVM, func(v TemplateView) string {
		newest := v.Newest()
		switch {
		case len(v.Versions) == 0:
			return "It has no version. Make one of a VM."
		case newest == nil:
			return "All its versions are deprecated. Offer one again, or make a new one of a VM."
		}
		return newest.Unready()
	}},
	{ActPublish, nil},
	{ActEdit, nil},
	{ActDelete, func(v TemplateView) string {
		for _, version := range v.Versions {
			if why := firstWhy(version.backedBy(), version.atWork()); why != "" {
				return why
			}
		}
		return ""
	}},
}

// Allows says whether the template can be asked for the action now, and if not, why. Actions lists all of them.
func (v TemplateView) Allows(a Action) (bool, string) { return templateOffers.allows(v, a) }
func (v TemplateView) Actions() []ActionState         { return templateOffers.states(v) }

func (v TemplateVersion) atWork() string {
	if v.Coming() {
		return fmt.Sprintf("An image of version %d is still being made. Wait until that has ended.", v.Number)
	}
	return ""
}

var templateVersionOffers = offers[TemplateVersion]{
	{ActNewVM, TemplateVersion.Unready},
	{ActDeprecate, func(v TemplateVersion) string {
		if v.DeprecatedAt != nil {
			return "It is deprecated already."
		}
		return ""
	}},
	{ActOffer, func(v TemplateVersion) string {
		if v.DeprecatedAt == nil {
			return "It is offered already."
		}
		return ""
	}},
	{ActDelete, func(v TemplateVersion) string { return firstWhy(v.backedBy(), v.atWork()) }},
}

// Allows says whether the version can be asked for the action now, and if not, why. States lists all of them.
func (v TemplateVersion) Allows(a Action) (bool, string) { return templateVersionOffers.allows(v, a) }
func (v TemplateVersion) States() []ActionState          { return templateVersionOffers.states(v) }

// SubjectTemplate is the subject of a template, and so the key of its wake-ups.
func SubjectTemplate(id TemplateID) Subject { return SubjectOf(TypeTemplate, id) }

// CheckTemplateName notes at field where no template can have the name.
func CheckTemplateName(c *Checks, field, name string) {
	var named Checks
	if CheckImageName(&named, field, name); named.Err() != nil {
		c.Add(field, "%s", strings.ReplaceAll(named.fields[0].Message, "the image", "the template"))
	}
}

// ofVMsAlone are the fields that Bare leaves nothing of.
var ofVMsAlone = []string{"iso", "boot.kernel", "boot.initrd", "boot.cmdline", "firstBoot", "hostDevices", "shares"}

// Bare is the spec without what makes a VM this one: its power, the medium in its drive, its disks' volumes and the addresses of its cards. What of a card
// follows its port group follows that of the new one, and a card whose guest may use other addresses is guarded as is usual for who makes the next.
func (s VMSpec) Bare() VMSpec {
	s.Power, s.ISO, s.FirstBoot = "", nil, VMFirstBoot{}
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

// CopiedFromSnapshot reports whether a copy of the VM's disks is made from a temporary snapshot: its guest may write to them, or they are made of the
// files of snapshots.
func (v VMView) CopiedFromSnapshot() bool {
	on := v.On() || v.Ordered != "" && v.Ordered != Stopped
	return len(v.Spec.Disks) > 0 && (on || v.HeldBySnapshots() != "")
}

// copyable is why the disks of the VM cannot be copied whole now; empty: they can.
func (v VMView) copyable(what string) string {
	if v.Phase == PhaseDeleting {
		return "The VM is being deleted."
	}
	for i, d := range v.Spec.Disks {
		if d.Encryption != "" {
			return fmt.Sprintf("Disk %d is encrypted with a passphrase that its host keeps for itself, so %s is made of it.", i+1, what)
		}
		if d.Shareable {
			return fmt.Sprintf("Disk %d is shared with other VMs, of which %s is made.", i+1, what)
		}
		if d.Existing {
			return fmt.Sprintf("Disk %d is a LUN of its storage, of which %s is made.", i+1, what)
		}
		if why := d.staysRaw(); why != "" {
			return diskNumber(i) + " " + why
		}
		if v.FaultOf(d.Ref()) != nil {
			return v.FaultOf(d.Ref()).Text
		}
	}
	if v.CopiedFromSnapshot() {
		_, why := v.AllowsTake(nil)
		return why
	}
	for _, d := range v.Spec.Disks {
		if ok, why := v.AllowsImage(d.Ref()); !ok {
			return why
		}
	}
	return ""
}

// AllowsTemplate says whether a template can be made of the VM's disks as they are now, and if not, why.
func (v VMView) AllowsTemplate() (bool, string) {
	why := v.copyable("no image")
	return why == "", why
}

// AllowsTemplateOfImages says whether a template can be made of the images that the VM's disks were made from, whatever is on them now, and if not, why.
func (v VMView) AllowsTemplateOfImages() (bool, string) {
	if v.Phase == PhaseDeleting {
		return false, "The VM is being deleted."
	}
	for i, d := range v.Spec.Disks {
		if d.ImageID == "" || d.VersionID == "" {
			return false, fmt.Sprintf("Disk %d was made from no image of the library. Make the template of copies of its disks as they are now.", i+1)
		}
	}
	return true, ""
}

// AllowsClone says whether the VM can be cloned now, and if not, why. Work on its snapshots that has not ended is not looked at.
func (v VMView) AllowsClone() (bool, string) {
	why := v.copyable("no copy")
	return why == "", why
}
