package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// VMDrive is a CD-ROM or floppy drive in addition to the first CD-ROM drive. Its slot identifies it.
type VMDrive struct {
	Slot string `json:"slot"` // see DriveSlots
	// ISO image, or floppy image for a floppy drive; nil: the drive is empty
	Medium    *Volref `json:"medium,omitempty"`
	BootOrder int     `json:"bootOrder,omitempty"` // 1 is tried first; 0: no explicit order
}

// IsFloppy reports whether the drive takes floppies.
func (d VMDrive) IsFloppy() bool { return d.Slot == "floppy1" || d.Slot == "floppy2" }

// VMHostDevice is a host device passed through to one guest.
type VMHostDevice struct {
	HostID HostID `json:"hostId,omitempty"` // host that has the device; if empty, the portal sets the VM's host
	Device string `json:"device"`           // name of the device in the host's report, by identity or by address: see DeviceKinds
}

// DeviceKind is a way to name a host device. The prefix of the name, before the "/", identifies the kind.
type DeviceKind struct {
	Prefix string
	Place  bool // the name is an address, which means a different device on each host: the user must choose the host first
	Shared bool // several guests can each have an instance of the device
	form   *regexp.Regexp
}

// DeviceKinds lists all ways to name a host device.
var DeviceKinds = []DeviceKind{
	{Prefix: "pci/", Place: true, form: regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]$`)},
	{Prefix: "usb/", form: regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)},
	// The name of a USB port selects the device that is plugged into the port when the guest starts.
	{Prefix: "usb-port/", Place: true, form: regexp.MustCompile(`^[0-9]{1,3}-[0-9]{1,3}(\.[0-9]{1,3}){0,5}$`)},
	// A physical disk is named as in /dev/disk/by-id.
	{Prefix: PhysicalDevice, form: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:+@=-]{0,199}$`)},
	// A mediated device is named by its type. The host creates an instance for the guest.
	{Prefix: "mdev/", Shared: true, form: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)},
}

// Kind returns the kind of the device's name; ok is false if the name is invalid.
func (d VMHostDevice) Kind() (DeviceKind, bool) {
	for _, k := range DeviceKinds {
		if rest, ok := strings.CutPrefix(d.Device, k.Prefix); ok {
			// A mediated device with a UUID as its name is refused: it was created outside Quantix and disappears when
			// the host boots.
			return k, k.form.MatchString(rest) && !IsID(rest)
		}
	}
	return DeviceKind{}, false
}

// PhysicalDevice is the name prefix of a host's physical disk. The disk's name in /dev/disk/by-id follows the prefix.
const PhysicalDevice = "blk/"

// PhysicalDiskName returns a physical disk's name in /dev/disk/by-id; empty: the device is of another kind.
func (d VMHostDevice) PhysicalDiskName() string {
	name, _ := strings.CutPrefix(d.Device, PhysicalDevice)
	if name == d.Device {
		return ""
	}
	return name
}

// physicalDisk returns the device name of the spec's first physical disk; empty: none.
func (s VMSpec) physicalDisk() string {
	for _, d := range s.HostDevices {
		if d.PhysicalDiskName() != "" {
			return d.Device
		}
	}
	return ""
}

// VMShare is a pool's directory that the guest mounts by virtiofs.
type VMShare struct {
	Tag    string `json:"tag"`    // mount tag in the guest
	Folder Volref `json:"folder"` // a directory directly below the pool's directory
}

// Choices of the list fields.
var (
	DriveSlots = []Option{{"", "Choose a drive"}, {"cdrom2", "Second CD-ROM"}, {"cdrom3", "Third CD-ROM"}, {"cdrom4", "Fourth CD-ROM"}, {"floppy1", "Floppy"}, {"floppy2", "Second floppy"}}
)

// Bounds of the list fields.
const (
	MaxHostDevices = 16
	MaxShares      = 8
	MaxFloppyBytes = 2880 << 10
)

var shareTagForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,35}$`)

// VMLists are the optional fields of a VM that hold a list.
var VMLists = []VMField{
	numaField(),
	vmListField("drives", "drive", func(s *VMSpec) *[]VMDrive { return &s.Drives }, element[VMDrive]{
		key: func(d VMDrive) string { return d.Slot }, definition: func(d VMDrive) string { return d.Slot + " " + string(poolOfVolref(d.Medium)) },
		words: func(d VMDrive) string { return FormInput{Options: DriveSlots}.words(d.Slot) }, fields: DriveFields,
		check: func(c *Checks, at string, d VMDrive) {
			if !slices.ContainsFunc(DriveSlots[1:], func(o Option) bool { return o.Value == d.Slot }) {
				c.Add(at+".slot", "Choose one of cdrom2, cdrom3, cdrom4, floppy1, floppy2.")
			}
			if d.Medium != nil {
				d.Medium.check(c, at+".medium")
			}
		},
	}, len(DriveSlots)-1, FormInput{
		Section: SectionDevices, Label: "More drives", Help: "Media can be changed while the guest runs. Drives are added and removed at its next start.",
		Rows: []InputRow{{"slot", FormInput{Kind: InputChoice, Label: "Drive", Options: DriveSlots}}},
	}),
	markListOperatorOnly("the host and other guests cannot use it, and without an IOMMU it can access all memory",
		markHotPluggable(vmListField("hostDevices", "host device", func(s *VMSpec) *[]VMHostDevice { return &s.HostDevices }, element[VMHostDevice]{
			key: func(d VMHostDevice) string { return d.Device }, definition: func(d VMHostDevice) string { return d.Device },
			words: func(d VMHostDevice) string { return d.Device }, takesEffect: func(VMHostDevice) EffectTime { return WhenNow },
			check: func(c *Checks, at string, d VMHostDevice) {
				if _, ok := d.Kind(); !ok {
					c.Add(at+".device", "Enter a device as the host's page lists it: pci/0000:41:00.0, usb/046d:c52b, usb-port/1-2.3, mdev/nvidia-63 or blk/ata-WDC_WD40EFRX_1234.")
				}
				if d.HostID != "" && !IsID(string(d.HostID)) {
					c.Add(at+".hostId", "There is no such host.")
				}
			},
		}, MaxHostDevices, FormInput{
			Section: SectionDevices, Label: "Host devices", Help: "Passed through to this guest only; the VM cannot migrate. The host's page lists its devices and disks. A USB port means the device that is plugged in there. For a mediated device type (vGPU) the host creates an instance. Choose the host, too.",
			Rows: []InputRow{{"device", FormInput{Kind: InputText, Label: "Device", Example: "pci/0000:41:00.0"}}},
		}))),
	deviceClassField(),
	markListOperatorOnly("the guest reads and writes files of the host", vmListField("shares", "shared folder", func(s *VMSpec) *[]VMShare { return &s.Shares }, element[VMShare]{
		key: func(v VMShare) string { return v.Tag }, definition: func(v VMShare) string { return v.Tag + " " + string(v.Folder.PoolID) },
		words: func(v VMShare) string { return v.Tag }, fields: ShareFields,
		check: func(c *Checks, at string, v VMShare) {
			if !shareTagForm.MatchString(v.Tag) {
				c.Add(at+".tag", "A tag has 1–36 letters, digits and _ . -, and begins with a letter or digit.")
			}
			if v.Folder.PoolID == "" {
				c.Add(at+".folder.poolId", "Choose the folder's pool.")
			}
			if !IsVolumeName(v.Folder.Volume) {
				c.Add(at+".folder.volume", "Enter the name of a folder in the pool, not a path.")
			}
		},
	}, MaxShares, FormInput{
		Section: SectionDevices, Label: "Shared folders", Help: "Mounted by virtiofs: mount -t virtiofs TAG /mnt. Needs shared memory.",
		Rows: []InputRow{
			{"tag", FormInput{Kind: InputText, Label: "Tag", Example: "src"}},
			{"folder.poolId", FormInput{Kind: InputPool, Label: "Pool"}},
			{"folder.volume", FormInput{Kind: InputText, Label: "Folder", Example: "its name in the pool"}},
		},
	})),
}

// DriveFields are the fields of a drive that users can edit.
var DriveFields = []Field[VMDrive]{
	markEffectiveNow(mediumField("medium", "medium", func(d *VMDrive) **Volref { return &d.Medium }, FormInput{Kind: InputMedium, Label: "Medium"})),
	numberField("bootOrder", "boot order", func(d *VMDrive) *int { return &d.BootOrder }, FormInput{Label: "Boot order"}, 1, MaxBootOrder),
}

// ShareFields are the fields of a shared folder that users can edit.
var ShareFields = []Field[VMShare]{
	formField("folder", "folder", func(v *VMShare) *Volref { return &v.Folder }, comparableType(func(v Volref) string { return v.Volume }), FormInput{}, func(*Checks, string, Volref) {}),
}

func poolOfVolref(v *Volref) PoolID {
	if v == nil {
		return ""
	}
	return v.PoolID
}

// mediumField builds a field whose value is a volume or none.
func mediumField[S any](name, title string, at func(*S) **Volref, in FormInput) Field[S] {
	medium := valueType[*Volref]{
		words: func(v *Volref) string {
			if v == nil {
				return "none"
			}
			return v.Volume
		},
		equal: func(a, b *Volref) bool { return a == b || a != nil && b != nil && *a == *b },
	}
	return formField(name, title, at, medium, in, func(*Checks, string, *Volref) {})
}

// vmListField builds a list field of a VM: elements of type T with at most maximum entries, each validated by e.check.
func vmListField[T any](name, title string, at func(*VMSpec) *[]T, e element[T], maximum int, in FormInput) VMField {
	f := listField(name, title, WhenNextBoot, at, e)
	in.Kind = InputRows
	for _, r := range e.fields {
		if r.Input.Label != "" {
			in.Rows = append(in.Rows, InputRow{r.Name, r.Input})
		}
	}
	f.Input = in
	f.Default = func(s VMSpec) bool { return len(*at(&s)) == 0 }
	f.check = func(c *Checks, field string, s VMSpec) {
		all := *at(&s)
		if len(all) > maximum {
			c.Add(field, "A VM has at most %s.", CountWithUnit(maximum, title))
			return
		}
		for i, v := range all {
			path := fmt.Sprintf("%s[%d]", field, i)
			e.check(c, path, v)
			for _, r := range e.fields {
				r.check(c, path+"."+r.Name, v)
			}
			if k := slices.IndexFunc(all, func(o T) bool { return e.key(o) == e.key(v) }); k < i && e.key(v) != "" {
				c.Add(path, "%s is listed twice.", e.words(v))
			}
		}
	}
	f.Merge = func(want *VMSpec, applied, defined VMSpec) {
		*at(want) = e.mergeEdits(*at(&applied), *at(&defined), *at(want))
	}
	return f
}

// mergeEdits returns the list to write to the host's definition: the edits from applied to want, made to the list
// defined there. All other elements and fields stay unchanged.
func (e element[T]) mergeEdits(applied, defined, want []T) []T {
	find := func(all []T, v T) int {
		return slices.IndexFunc(all, func(o T) bool { return e.key(o) == e.key(v) })
	}
	var out []T
	for _, w := range want {
		before, here := find(applied, w), find(defined, w)
		switch {
		case before >= 0 && here >= 0:
			one := defined[here]
			for _, f := range e.fields {
				if !f.Same(applied[before], w) {
					f.Copy(&one, w)
				}
			}
			out = append(out, one)
		case before >= 0 && e.fullDefinition(applied[before]) == e.fullDefinition(w): // the element was removed on the host outside Quantix
		default:
			out = append(out, w)
		}
	}
	for _, v := range defined {
		if find(want, v) < 0 && find(applied, v) < 0 {
			out = append(out, v)
		}
	}
	return out
}

// markHotPluggable marks a list field whose elements are hot-plugged and hot-unplugged while the guest runs.
func markHotPluggable(f VMField) VMField {
	f.TakesEffect = WhenNow
	return f
}

// markListOperatorOnly marks a list field that only operators may set. why is the reason, as a clause.
func markListOperatorOnly(why string, f VMField) VMField {
	f.Field = markOperatorOnly(why, f.Field)
	return f
}

// MediumKind is the kind of volume that a field accepts.
type MediumKind int

// Kinds of media.
const (
	MediumISO MediumKind = iota
	MediumFloppy
	MediumFile   // a plain file, such as a kernel
	MediumFolder // a directory of the host
)

// Medium is a volume that the spec names in addition to its disks. Quantix only reads it and never creates it.
type Medium struct {
	Field string // path in the spec: "iso", "drives[0].medium", "boot.kernel"
	Kind  MediumKind
	Volref
}

// Media returns all media of the spec.
func (s VMSpec) Media() []Medium {
	var out []Medium
	if s.ISO != nil {
		out = append(out, Medium{"iso", MediumISO, *s.ISO})
	}
	s.MapMedia(func(m Medium) Volref {
		out = append(out, m)
		return m.Volref
	})
	return out
}

// MapMedia returns the spec with each medium of an optional field replaced by the result of replace. It does not change
// the ISO in the first CD-ROM drive.
func (s VMSpec) MapMedia(replace func(Medium) Volref) VMSpec {
	one := func(field string, kind MediumKind, at **Volref) {
		if *at != nil {
			v := replace(Medium{field, kind, **at})
			*at = &v
		}
	}
	s.Drives = slices.Clone(s.Drives)
	for i := range s.Drives {
		kind := MediumISO
		if s.Drives[i].IsFloppy() {
			kind = MediumFloppy
		}
		one(fmt.Sprintf("drives[%d].medium", i), kind, &s.Drives[i].Medium)
	}
	one("boot.kernel", MediumFile, &s.Boot.Kernel)
	one("boot.initrd", MediumFile, &s.Boot.Initrd)
	s.Shares = slices.Clone(s.Shares)
	for i := range s.Shares {
		s.Shares[i].Folder = replace(Medium{fmt.Sprintf("shares[%d].folder", i), MediumFolder, s.Shares[i].Folder})
	}
	return s
}

// checkFieldConflicts adds an error for each list field that conflicts with another field.
func (s VMSpec) checkFieldConflicts(c *Checks, prefix string) {
	if len(s.Shares) > 0 && !s.Memory.Shared {
		c.Add(prefix+".memory.shared", "Shared folders need shared memory. Enable it, or remove the folders.")
	}
	if b := s.Boot; b.Kernel == nil && (b.Initrd != nil || b.Cmdline != "") {
		c.Add(prefix+".boot.kernel", "An initial RAM disk or command line needs a kernel. Choose one, or remove them.")
	}
	for _, m := range s.Media() {
		if m.Kind == MediumFile {
			m.check(c, prefix+"."+m.Field)
		}
	}
	if n := s.Memory.BalloonMiB; n > 0 && n > s.MemoryMiB {
		c.Add(prefix+".memory.balloonMiB", "The balloon target must not exceed the VM's %d MiB.", s.MemoryMiB)
	}
	if s.Memory.BalloonMiB > 0 && s.Devices.Balloon == "none" {
		c.Add(prefix+".memory.balloonMiB", "A balloon target needs a balloon. Choose a balloon, or remove the target.")
	}
	if s.Devices.GuestAgent == AgentOnVSOCK && !s.Devices.VSOCK {
		c.Add(prefix+".devices.guestAgent", "The guest agent on vsock needs a vsock device. Add one, or choose virtio-serial.")
	}
	s.checkMinMemory(c, prefix+".memory.minMiB")
	if s.Display.USBRedirection > 0 && !s.Display.Spice {
		c.Add(prefix+".display.usbRedirection", "USB redirection needs SPICE. Enable SPICE, or remove the redirection.")
	}
}

// NamedVM identifies a VM in messages and lists.
type NamedVM struct {
	ID   VMID   `json:"id"`
	Name string `json:"name"`
}
