package fleet

import (
	"fmt"
	"regexp"
	"strings"
)

// VolumeFormats are the formats of new volumes.
var VolumeFormats = []string{"qcow2", "raw"}

// PartialSuffix is the suffix of an incomplete volume's file name.
const PartialSuffix = ".partial"

// IsVolumeOrPartialFile reports whether file is the name of the volume's file or of its incomplete file.
func (v Volref) IsVolumeOrPartialFile(file string) bool {
	return file == v.Volume || file == v.Volume+PartialSuffix
}

// ownDisk matches the names that the portal gives to disks of VMs. Such a volume holds a VM's data, even after the VM
// was deleted.
var ownDisk = regexp.MustCompile(`-[0-9a-f]{12}-[0-9]+\.(qcow2|raw)$`)

// IsVMDiskName reports whether the portal gave the volume its name, as a VM's disk.
func IsVMDiskName(volume string) bool { return ownDisk.MatchString(volume) }

// VolumeParams holds the parameters of a volume job. The comment of each field names the kinds of jobs that use it.
type VolumeParams struct {
	Format    string `json:"format,omitempty"`    // create: volume format
	SizeBytes int64  `json:"sizeBytes,omitempty"` // create, grow: virtual size in bytes
	Full      bool   `json:"full,omitempty"`      // create: allocate all space at once
	// Source is another volume of the pool (clone), a volume of the source pool (copy), the old name (rename) or the
	// volume itself (read).
	Source string `json:"source,omitempty"`
	// SourcePool is the pool that copy reads from; the host receives its definition with the job. Empty: the volume's
	// own pool.
	SourcePool PoolID `json:"sourcePool,omitempty"`
	// Flatten is set for a copy of a VM's disk: the copy includes the data of the disk's backing files.
	Flatten bool `json:"flatten,omitempty"`
	// Snapshot is the snapshot of a VM whose disk state a copy reads. Source and SourcePool name the disk; only the
	// VM's host knows the snapshot's files.
	Snapshot *SnapshotRef `json:"snapshot,omitempty"`
	URL      string       `json:"url,omitempty"` // fetch: the address, as ParseDownloadURL accepts it
	// Checksum is the file's expected checksum for fetch, copy and upload: "sha256:…", for fetch also "sha512:…". Empty:
	// unknown.
	Checksum string `json:"checksum,omitempty"`
	// ChecksumURL is, for fetch, the address of a checksum file that the host reads first. Checksum is then empty.
	ChecksumURL string `json:"checksumUrl,omitempty"`
	// Upload identifies an upload, and the upload's incomplete file. SizeBytes is the size of the uploaded file.
	Upload UploadID `json:"upload,omitempty"`
	// TakesBytes is the pool space reserved for the volume while the job runs.
	TakesBytes int64 `json:"takesBytes,omitempty"`
	// Transfer is, for send and receive, this host's side of a transfer between two hosts. The sender reads Source in
	// SourcePool.
	Transfer *TransferParams `json:"transfer,omitempty"`
	// Member is, for convert, the disk's file in the archive Source. Empty: Source is the disk.
	Member string        `json:"member,omitempty"`
	Export *ExportParams `json:"export,omitempty"` // export: what to export
	// LeftBy is, for delete, the job of the disk migration whose source this volume was. A failed deletion is noted in
	// that job's task.
	LeftBy JobID `json:"leftBy,omitempty"`
}

// VolumeUsers names the users of a volume, by the VMs' specs and the image library. The zero value means that nothing
// uses the volume.
type VolumeUsers struct {
	Disk      string `json:"disk,omitempty"`      // name of the VM that has the volume as a disk
	Drive     string `json:"drive,omitempty"`     // name of the VM that has the volume in a drive
	CreatedVM string `json:"making,omitempty"`    // name of the VM that is being created from the volume
	Published bool   `json:"published,omitempty"` // the volume is a copy of an image of the library
	Image     string `json:"image,omitempty"`     // name of that image
}

// SubjectVolume returns the subject of a volume. In a local pool it covers the volumes of that name on all hosts.
func SubjectVolume(ref Volref) Subject {
	return SubjectOf(TypeVolume, string(ref.PoolID)+"/"+ref.Volume)
}

// Volume returns the volume that the subject names; ok is false for other subjects.
func (s Subject) Volume() (ref Volref, ok bool) {
	resource, id := s.ResourceAndID()
	pool, name, ok := strings.Cut(id, "/")
	return Volref{PoolID(pool), name}, ok && resource == string(TypeVolume)
}

const invalidVolumeName = "Choose a volume of the pool: a file name of at most 255 bytes that does not begin with a dot."

// IsVolumeName reports whether a volume may have the name: a file directly in the pool's directory, and not hidden
// like the pool's marker file.
func IsVolumeName(name string) bool {
	return name != "" && len(name) <= 255 && name[0] != '.' && !strings.Contains(name, "/") && IsPlainText(name)
}

// CheckNewVolume adds an error at field if no new volume may have the name.
func CheckNewVolume(c *Checks, field, name string) {
	switch {
	case !volumeForm.MatchString(name):
		c.Add(field, "A volume name has letters, digits and . _ -, at most 200 characters, and begins with a letter or digit.")
	case strings.HasSuffix(name, PartialSuffix):
		c.Add(field, "Names that end in %s are reserved for incomplete volumes. Choose another.", PartialSuffix)
	case IsVMDiskName(name):
		c.Add(field, "Names with this ending are reserved for disks of VMs. Choose another.")
	}
}

// CheckVolumeSize adds an error at field if a volume cannot have the size, in bytes.
func CheckVolumeSize(c *Checks, field string, size int64) {
	switch {
	case size <= 0:
		c.Add(field, "Enter a size above 0.")
	case size > MaxDiskBytes:
		c.Add(field, "A volume has at most %d TiB.", MaxDiskBytes>>40)
	}
}

// VolumeUse is a volume with all facts that decide which actions are allowed on it.
type VolumeUse struct {
	Volume
	Held
	Online bool   // a host with the volume is online
	Work   string // title of the pending or running task: "Grow volume"
	Busy   string // name of the running VM that has the volume as a disk
}

// Held is VolumeUsers under another name, so that VolumeUse can embed it.
type Held = VolumeUsers

// Actions on volumes.
const (
	ActGrow  Action = "grow"
	ActClone Action = "clone"
	ActWipe  Action = "wipe"

	ActRename  Action = "rename"
	ActConvert Action = "convert"

	ActDownload Action = "download"
	ActImport   Action = "import" // create a VM from an appliance
)

var volumeActions = ActionTable[VolumeUse]{
	{ActGrow, func(v VolumeUse) string {
		switch why := firstReason(v.whyUnavailable(), v.whyLUNUnchangeable(), v.whyFormatUnsupported(), v.whyOverlayUnsupported("grown"), v.whyBackingFileInUse()); {
		case why != "":
			return why
		case v.Disk != "":
			return fmt.Sprintf("The volume is a disk of the VM %s. Grow the disk on the VM's page.", v.Disk)
		}
		return v.whyInUse()
	}},
	{ActClone, func(v VolumeUse) string {
		if why := firstReason(v.whyUnavailable(), v.whyLUNUnchangeable(), v.whyFormatUnsupported(), v.whyOverlayUnsupported("cloned")); why != "" || v.Busy == "" {
			return why
		}
		return fmt.Sprintf("The running VM %s uses the volume, so a copy would be inconsistent. Shut the VM down first.", v.Busy)
	}},
	{ActConvert, func(v VolumeUse) string {
		switch why := firstReason(v.whyUnavailable(), v.whyIncomplete()); {
		case why != "":
			return why
		case v.Appliance == nil || v.Format == FormatOVA:
			return "The volume is not a disk in a format that needs conversion."
		}
		return v.Appliance.Error
	}},
	{ActImport, func(v VolumeUse) string {
		switch why := firstReason(v.whyUnavailable(), v.whyIncomplete()); {
		case why != "":
			return why
		case v.Appliance == nil:
			return "The volume is not an appliance: an OVA archive, or a disk as VMDK, VHDX, VHD or VDI. Create a VM from an image instead."
		}
		return v.Appliance.Error
	}},
	{ActDownload, func(v VolumeUse) string {
		switch why := firstReason(v.whyUnavailable(), v.whyIncomplete()); {
		case why != "":
			return why
		case v.Format == FormatRBD || v.Format == FormatLV || v.Format == FormatLUN:
			return "The volume is not a file on its host. Copy it with the tools of its storage."
		case v.Backing != "":
			return "The volume has a backing file, so its own file is incomplete. Create an image from the VM's disk instead."
		case v.Busy != "":
			return fmt.Sprintf("The running VM %s uses the volume, so the download would be inconsistent. Shut the VM down first.", v.Busy)
		}
		return ""
	}},
	{ActRename, func(v VolumeUse) string {
		if why := firstReason(v.whyUnavailable(), v.whyLUNUnchangeable(), v.whyIncomplete(), v.whyBackingFileInUse()); why != "" {
			return why
		}
		if v.Format == FormatRBD || v.Format == FormatLV {
			return "libvirt cannot rename a volume of this storage. Clone it under the new name, and delete this volume."
		}
		return firstReason(v.whyDiskOfVM("renamed"), v.whyInUse())
	}},
	{ActWipe, func(v VolumeUse) string {
		switch why := firstReason(v.whyUnavailable(), v.whyLUNUnchangeable(), v.whyIncomplete(), v.whyBackingFileInUse()); {
		case why != "":
			return why
		case v.Backing != "":
			return "The volume has a backing file, so only a part of its content would be wiped. Delete it instead."
		}
		return firstReason(v.whyDiskOfVM("wiped"), v.whyInUse())
	}},
	{ActDelete, func(v VolumeUse) string {
		return firstReason(v.whyUnavailable(), v.whyLUNUnchangeable(), v.whyBackingFileInUse(), v.whyDiskOfVM("deleted"), v.whyInUse())
	}},
}

// Allows reports whether the volume allows the action now; the string is the reason if not. Actions lists the state of
// every action.
func (v VolumeUse) Allows(a Action) (bool, string) { return volumeActions.Allows(v, a) }
func (v VolumeUse) Actions() []ActionState         { return volumeActions.States(v) }

func firstReason(whys ...string) string {
	for _, why := range whys {
		if why != "" {
			return why
		}
	}
	return ""
}

func (v VolumeUse) whyUnavailable() string {
	switch {
	case v.Work != "":
		return fmt.Sprintf("Another task for the volume has not ended: %s. Wait for that task, or cancel it.", strings.ToLower(v.Work))
	case !v.Online:
		return "No online host has the volume."
	case v.Fault != "":
		return v.Fault
	}
	return ""
}

func (v VolumeUse) whyIncomplete() string {
	if v.Unfinished {
		return "The volume is incomplete, because its creation was interrupted. Delete it."
	}
	return ""
}

// whyLUNUnchangeable returns why the volume cannot be changed because it is a LUN, which the storage provides; empty: it is not
// a LUN.
func (v VolumeUse) whyLUNUnchangeable() string {
	if v.Format == FormatLUN {
		return "The volume is a LUN, which other systems may use. Change it on the storage target."
	}
	return ""
}

func (v VolumeUse) whyFormatUnsupported() string {
	switch {
	case v.Unfinished:
		return v.whyIncomplete()
	case v.Format == FormatRBD || v.Format == FormatLV:
	case v.Format != "qcow2" && v.Format != "raw" && !v.IsISO():
		return fmt.Sprintf("The volume has the format %s, and only qcow2 and raw volumes can be changed. Convert it first.", v.Format)
	}
	return ""
}

func (v VolumeUse) whyOverlayUnsupported(done string) string {
	switch {
	case v.Backing != "":
		return fmt.Sprintf("The volume has a backing file, so it cannot be %s. Create an image from the VM's disk instead.", done)
	case v.IsISO() && done == "grown":
		return "An ISO image cannot be grown."
	}
	return ""
}

func (v VolumeUse) whyBackingFileInUse() string {
	if len(v.BaseOf) > 0 {
		return fmt.Sprintf("The volume %s is backed by this volume and would be broken. Flatten or delete it first.", v.BaseOf[0])
	}
	return ""
}

func (v VolumeUse) whyDiskOfVM(done string) string {
	if v.Disk != "" {
		return fmt.Sprintf("The volume is a disk of the VM %s, so it cannot be %s here. Detach it from the VM, or delete the VM with its disks.", v.Disk, done)
	}
	return ""
}

func (v VolumeUse) whyInUse() string {
	switch {
	case v.CreatedVM != "":
		return fmt.Sprintf("The VM %s is being created from the volume. Wait until the creation has ended.", v.CreatedVM)
	case v.Drive != "":
		return fmt.Sprintf("The VM %s has the volume in a drive. Eject it on the VM's page first.", v.Drive)
	case v.Published:
		return whyPublishedImage(v.Image)
	}
	return ""
}

func whyPublishedImage(image string) string {
	if image == "" {
		return "The volume is a copy of a library image. Withdraw it from the library first."
	}
	return fmt.Sprintf("The volume is a copy of the library image %s. Withdraw it from the library first.", image)
}

// JobError returns an error if a host must not run the job on a volume with these users; nil: the job may run.
func (h VolumeUsers) JobError(kind JobKind) error {
	act := map[JobKind]Action{VolumeGrow: ActGrow, VolumeWipe: ActWipe, VolumeDelete: ActDelete}[kind]
	if act == "" {
		return nil
	}
	use := VolumeUse{Volume: Volume{Format: "raw"}, Held: h, Online: true}
	if ok, why := use.Allows(act); !ok {
		return RefusalError(why)
	}
	return nil
}
