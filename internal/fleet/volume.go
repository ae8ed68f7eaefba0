package fleet

import (
	"fmt"
	"regexp"
	"strings"
)

// VolumeFormats are those that a new volume can have.
var VolumeFormats = []string{"qcow2", "raw"}

// PartialSuffix ends the name of a volume that is not whole yet, or never became so.
const PartialSuffix = ".partial"

// IsOrBecomes reports whether the file of that name is the volume, or what is half made of it.
func (v Volref) IsOrBecomes(file string) bool {
	return file == v.Volume || file == v.Volume+PartialSuffix
}

// ownDisk is the form of the names that the portal gives to disks. What bears it was some VM's data, also when that VM is gone.
var ownDisk = regexp.MustCompile(`-[0-9a-f]{12}-[0-9]+\.(qcow2|raw)$`)

// IsOwnDisk reports whether the name is one that the portal gives to VMs' disks.
func IsOwnDisk(volume string) bool { return ownDisk.MatchString(volume) }

// VolumeOrder is what is to be made of a volume.
type VolumeOrder struct {
	Format    string `json:"format,omitempty"`    // create
	SizeBytes int64  `json:"sizeBytes,omitempty"` // create, grow: as a guest sees it
	Full      bool   `json:"full,omitempty"`      // create: all of it is allocated at once
	Source    string `json:"source,omitempty"`    // clone: another volume of the pool; copy: of the source pool; rename: its old name; read: the volume itself
	// SourcePool is where copy reads from; the host is told of the pool with the order. Empty: the volume's own.
	SourcePool PoolID `json:"sourcePool,omitempty"`
	Flatten    bool   `json:"flatten,omitempty"` // copy: the source is a VM's disk; what it stands on becomes part of the copy
	// Snapshot is, for such a copy, of which moment the disk is copied: Source and SourcePool name the disk, and its VM's host knows the files.
	Snapshot *SnapshotOf `json:"snapshot,omitempty"`
	URL      string      `json:"url,omitempty"`      // fetch: as ParseDownload takes it
	Checksum string      `json:"checksum,omitempty"` // fetch, copy, upload: "sha256:…", for fetch also "sha512:…"; empty: none is known
	// ChecksumURL is, for fetch, the address of a file that has the checksum: the host reads it first. With it Checksum is empty.
	ChecksumURL string `json:"checksumUrl,omitempty"`
	// Upload names an upload, and so the half-made file that is its own; SizeBytes is how much comes.
	Upload UploadID `json:"upload,omitempty"`
	// TakesBytes is what the pool is promised to it meanwhile.
	TakesBytes int64 `json:"takesBytes,omitempty"`
	// Transfer is the host's part in bringing it from another one: of send, which reads Source of SourcePool, and receive.
	Transfer *TransferOrder `json:"transfer,omitempty"`
	// Member is, for convert, the disk in an archive that is the source; empty: the source is the disk.
	Member string       `json:"member,omitempty"`
	Export *ExportOrder `json:"export,omitempty"` // export: of what
	// LeftBy is, for delete, the disk migration that left the volume behind: its task names a volume that stays.
	LeftBy JobID `json:"leftBy,omitempty"`
}

// VolumeInUse is who needs a volume, as people asked; zero: nobody.
type VolumeInUse struct {
	Disk      string `json:"disk,omitempty"`      // the name of a VM whose disk it is
	Drive     string `json:"drive,omitempty"`     // of one that has it in its drive
	Making    string `json:"making,omitempty"`    // of one that is being made from it
	Published bool   `json:"published,omitempty"` // the library has it
	Image     string `json:"image,omitempty"`     // the name of the image that it is a copy of
}

// SubjectVolume is the subject of one volume: of a local pool, of each host's of that name.
func SubjectVolume(ref Volref) Subject {
	return SubjectOf(TypeVolume, string(ref.PoolID)+"/"+ref.Volume)
}

// Volume is the volume that the subject is; ok is false where it is none.
func (s Subject) Volume() (ref Volref, ok bool) {
	noun, id := s.Split()
	pool, name, ok := strings.Cut(id, "/")
	return Volref{PoolID(pool), name}, ok && noun == string(TypeVolume)
}

const noVolumeName = "Choose a volume of the pool: its name is that of a file there, 255 bytes at most, and begins with no dot."

// IsVolumeName reports whether a volume may be called so: a file of the pool's own directory, and none that is hidden there, as the pool's
// marker is.
func IsVolumeName(name string) bool {
	return name != "" && len(name) <= 255 && name[0] != '.' && !strings.Contains(name, "/") && plain(name)
}

// CheckNewVolume notes at field where no new volume may have the name.
func CheckNewVolume(c *Checks, field, name string) {
	switch {
	case !volumeForm.MatchString(name):
		c.Add(field, "Name the volume with letters, digits and . _ -, 200 at most, beginning with a letter or digit.")
	case strings.HasSuffix(name, PartialSuffix):
		c.Add(field, "Names that end in %s are given to volumes that are not whole yet. Choose another.", PartialSuffix)
	case IsOwnDisk(name):
		c.Add(field, "Names that end so are given to the disks of VMs. Choose another.")
	}
}

// CheckVolumeSize notes at field where no volume can be that large.
func CheckVolumeSize(c *Checks, field string, size int64) {
	switch {
	case size <= 0:
		c.Add(field, "Give a size above 0.")
	case size > MaxDiskBytes:
		c.Add(field, "A volume has at most %d TiB.", MaxDiskBytes>>40)
	}
}

// VolumeUse is all that decides what can be asked of a volume.
type VolumeUse struct {
	Volume
	Held
	Online bool   // a host that is heard has it
	Work   string // what waits or is done with it already: "Grow volume"
	Busy   string // the name of a VM that runs with it as its disk
}

// Held is VolumeInUse where it is embedded.
type Held = VolumeInUse

// What can be asked of a volume.
const (
	ActGrow  Action = "grow"
	ActClone Action = "clone"
	ActWipe  Action = "wipe"

	ActRename  Action = "rename"
	ActConvert Action = "convert"

	ActDownload Action = "download"
	ActImport   Action = "import" // a new VM of an appliance
)

var volumeOffers = offers[VolumeUse]{
	{ActGrow, func(v VolumeUse) string {
		switch why := firstWhy(v.away(), v.given(), v.unknown(), v.hasNoBackingFile("grown"), v.based()); {
		case why != "":
			return why
		case v.Disk != "":
			return fmt.Sprintf("It is a disk of the VM %s, which would not know of it. Grow the disk on the VM's page.", v.Disk)
		}
		return v.readOrOffered()
	}},
	{ActClone, func(v VolumeUse) string {
		if why := firstWhy(v.away(), v.given(), v.unknown(), v.hasNoBackingFile("cloned")); why != "" || v.Busy == "" {
			return why
		}
		return fmt.Sprintf("The VM %s runs with it, so a copy would not be whole. Shut the VM down first.", v.Busy)
	}},
	{ActConvert, func(v VolumeUse) string {
		switch why := firstWhy(v.away(), v.unfinished()); {
		case why != "":
			return why
		case v.Appliance == nil || v.Format == FormatOVA:
			return "It is no disk in a format that has to be converted."
		}
		return v.Appliance.Error
	}},
	{ActImport, func(v VolumeUse) string {
		switch why := firstWhy(v.away(), v.unfinished()); {
		case why != "":
			return why
		case v.Appliance == nil:
			return "It is no appliance: an OVA archive, or a disk as VMDK, VHDX, VHD or VDI. Make a VM from an image instead."
		}
		return v.Appliance.Error
	}},
	{ActDownload, func(v VolumeUse) string {
		switch why := firstWhy(v.away(), v.unfinished()); {
		case why != "":
			return why
		case v.Format == FormatRBD || v.Format == FormatLV || v.Format == FormatLUN:
			return "It is no file on its host. Copy it with the tools of its storage."
		case v.Backing != "":
			return "It stands on another file, so what is in this one alone would be no whole volume. Make an image of the VM that has it: that has all in one file."
		case v.Busy != "":
			return fmt.Sprintf("The VM %s runs with it, so what comes would not be whole. Shut the VM down first.", v.Busy)
		}
		return ""
	}},
	{ActRename, func(v VolumeUse) string {
		if why := firstWhy(v.away(), v.given(), v.unfinished(), v.based()); why != "" {
			return why
		}
		if v.Format == FormatRBD || v.Format == FormatLV {
			return "libvirt cannot rename a volume of this storage. Clone it under the new name, and delete this one."
		}
		return firstWhy(v.disk("renamed"), v.readOrOffered())
	}},
	{ActWipe, func(v VolumeUse) string {
		switch why := firstWhy(v.away(), v.given(), v.unfinished(), v.based()); {
		case why != "":
			return why
		case v.Backing != "":
			return "It stands on another file, so only a part of what is seen in it would be wiped. Delete it instead."
		}
		return firstWhy(v.disk("wiped"), v.readOrOffered())
	}},
	{ActDelete, func(v VolumeUse) string {
		return firstWhy(v.away(), v.given(), v.based(), v.disk("deleted"), v.readOrOffered())
	}},
}

// Allows says whether the volume can be asked for the action now, and if not, why. Actions lists all of them.
func (v VolumeUse) Allows(a Action) (bool, string) { return volumeOffers.allows(v, a) }
func (v VolumeUse) Actions() []ActionState         { return volumeOffers.states(v) }

func firstWhy(whys ...string) string {
	for _, why := range whys {
		if why != "" {
			return why
		}
	}
	return ""
}

func (v VolumeUse) away() string {
	switch {
	case v.Work != "":
		return fmt.Sprintf("Another order for it has not ended: %s. Wait for it, or cancel it.", strings.ToLower(v.Work))
	case !v.Online:
		return "No host that is heard has it now."
	case v.Fault != "":
		return v.Fault
	}
	return ""
}

func (v VolumeUse) unfinished() string {
	if v.Unfinished {
		return "It was never finished: what made it was cut off. Delete it."
	}
	return ""
}

// given is why what the storage itself has made is left as it is.
func (v VolumeUse) given() string {
	if v.Format == FormatLUN {
		return "It is a LUN of the target, where nobody can tell from here who else uses it. Change it at the target itself."
	}
	return ""
}

func (v VolumeUse) unknown() string {
	switch {
	case v.Unfinished:
		return v.unfinished()
	case v.Format == FormatRBD || v.Format == FormatLV:
	case v.Format != "qcow2" && v.Format != "raw" && !v.IsISO():
		return fmt.Sprintf("It has the format %s; only qcow2 and raw volumes are changed. Convert it first.", v.Format)
	}
	return ""
}

func (v VolumeUse) hasNoBackingFile(done string) string {
	switch {
	case v.Backing != "":
		return fmt.Sprintf("It stands on another file, so it is not %s. Make an image of the VM that has it: that has all in one file.", done)
	case v.IsISO() && done == "grown":
		return "An ISO image is as large as it is."
	}
	return ""
}

func (v VolumeUse) based() string {
	if len(v.BaseOf) > 0 {
		return fmt.Sprintf("The volume %s stands on it and would be broken. Flatten or delete that one first.", v.BaseOf[0])
	}
	return ""
}

func (v VolumeUse) disk(done string) string {
	if v.Disk != "" {
		return fmt.Sprintf("It is a disk of the VM %s, so it is not %s here. Detach it from the VM, or delete the VM with its disks.", v.Disk, done)
	}
	return ""
}

func (v VolumeUse) readOrOffered() string {
	switch {
	case v.Making != "":
		return fmt.Sprintf("The VM %s is being made from it. Wait until that is done.", v.Making)
	case v.Drive != "":
		return fmt.Sprintf("The VM %s has it in its drive. Take it out on the VM's page first.", v.Drive)
	case v.Published:
		return libraryHas(v.Image)
	}
	return ""
}

func libraryHas(image string) string {
	if image == "" {
		return "It is published: the library of images has it. Withdraw it first."
	}
	return fmt.Sprintf("It is published: it is a copy of the image %s. Withdraw it from the library first.", image)
}

// Refuse is why a host must not do the work to the volume that is held so; nil: it may.
func (h VolumeInUse) Refuse(kind JobKind) error {
	act := map[JobKind]Action{VolumeGrow: ActGrow, VolumeWipe: ActWipe, VolumeDelete: ActDelete}[kind]
	if act == "" {
		return nil
	}
	use := VolumeUse{Volume: Volume{Format: "raw"}, Held: h, Online: true}
	if ok, why := use.Allows(act); !ok {
		return Errorf(Conflict, "%s", why)
	}
	return nil
}
