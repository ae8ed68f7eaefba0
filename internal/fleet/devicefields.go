package fleet

import (
	"cmp"
	"fmt"
	"regexp"
)

// Machines are the emulated machine types.
var Machines = []Option{{"", "q35"}, {MachinePC, "i440fx (pc), for old guests"}}

// Choices of a disk's or NIC's fields. The empty value is the default.
var (
	DiskBuses  = []Option{{"", "Virtio"}, {"scsi", "SCSI (virtio)"}, {"sata", "SATA"}, {"usb", "USB"}, {"ide", "IDE (machine pc only)"}, {"nvme", "NVMe"}}
	DiskCaches = []Option{
		{"", "Default"}, {"none", "None"}, {"writeback", "Write back"}, {"writethrough", "Write through"}, {"directsync", "Direct, synchronous"}, {"unsafe", "Unsafe (loses data on a crash)"},
	}
	Discards        = []Option{{"", "Unmap"}, {"ignore", "Ignore"}}
	DiskEncryptions = []Option{{"", "None"}, {"luks", "LUKS"}}

	DiskIO    = []Option{{"", "Default"}, {"native", "Native"}, {"threads", "Threads"}, {"io_uring", "io_uring"}}
	NICModels = []Option{{"", "Virtio"}, {"e1000e", "Intel e1000e"}, {"rtl8139", "Realtek 8139"}}
)

// Bounds of disk and NIC fields.
const (
	MaxQueues       = 64
	MaxRate         = 1 << 30 // IOPS, KiB/s
	MaxBurstSeconds = 3600
)

var serialForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+-]{0,19}$`)

// Sections of a disk's or NIC's form.
const (
	SectionDevice FormSection = "Options"
	SectionLimits FormSection = "Limits"
)

// DiskFields are the fields of a disk that an edit changes.
var DiskFields = []Field[Disk]{
	choiceField("bus", "bus", func(d *Disk) *string { return &d.Bus }, FormInput{Section: SectionDevice, Label: "Bus", Options: DiskBuses, DefaultName: "virtio"}),
	choiceField("cache", "cache", func(d *Disk) *string { return &d.Cache }, FormInput{Section: SectionDevice, Label: "Cache", Options: DiskCaches, DefaultName: "default"}),
	choiceField("io", "I/O", func(d *Disk) *string { return &d.IO }, FormInput{Section: SectionDevice, Label: "I/O", Options: DiskIO, DefaultName: "default"}),
	choiceField("discard", "discard", func(d *Disk) *string { return &d.Discard }, FormInput{Section: SectionDevice, Label: "Discard", Options: Discards, DefaultName: "unmap"}),
	numberField("bootOrder", "boot order", func(d *Disk) *int { return &d.BootOrder }, FormInput{Section: SectionDevice, Label: "Boot order"}, 1, MaxBootOrder),
	textField("serial", "serial number", func(d *Disk) *string { return &d.Serial }, FormInput{Section: SectionDevice, Label: "Serial number"},
		serialForm, "A serial number has 1–20 letters, digits and _ . + -, and begins with a letter or digit."),
	flagField("readOnly", "read-only", func(d *Disk) *bool { return &d.ReadOnly }, FormInput{Section: SectionDevice, Label: "Read-only"}),
	markPowerOffOnly(flagField("shareable", "shareable", func(d *Disk) *bool { return &d.Shareable }, FormInput{
		Section: SectionDevice, Label: "Shareable",
		Help: "Several VMs can write to this raw volume at once, as clusters do.",
	})),

	markCreationOnly(choiceField("encryption", "encryption", func(d *Disk) *string { return &d.Encryption }, FormInput{
		Section: SectionDevice, Label: "Encryption", Options: DiskEncryptions, DefaultName: "none",
		Help: "For a new, empty disk. Only its host has the passphrase: the VM cannot migrate and has no snapshots.",
	})),

	markCreationOnly(choiceField("format", "format", func(d *Disk) *string { return &d.Format }, FormInput{
		Section: SectionDevice, Label: "Format", Options: DiskFormats,
		Help: "Raw is slightly faster, but a raw disk has no snapshots and no clones, and cannot move to another pool.",
	})),

	rateLimitField("limits.totalIops", "operations", "IOPS", "Operations", func(d *Disk) *int { return &d.Limits.TotalIOPS }),
	rateLimitField("limits.readIops", "reads", "IOPS", "Reads", func(d *Disk) *int { return &d.Limits.ReadIOPS }),
	rateLimitField("limits.writeIops", "writes", "IOPS", "Writes", func(d *Disk) *int { return &d.Limits.WriteIOPS }),
	rateLimitField("limits.totalKiB", "throughput", "KiB/s", "Throughput", func(d *Disk) *int { return &d.Limits.TotalKiB }),
	rateLimitField("limits.readKiB", "read throughput", "KiB/s", "Read throughput", func(d *Disk) *int { return &d.Limits.ReadKiB }),
	rateLimitField("limits.writeKiB", "write throughput", "KiB/s", "Write throughput", func(d *Disk) *int { return &d.Limits.WriteKiB }),
	rateLimitField("limits.burstIops", "burst", "IOPS", "Burst", func(d *Disk) *int { return &d.Limits.BurstIOPS }),
	rateLimitField("limits.burstKiB", "burst throughput", "KiB/s", "Burst throughput", func(d *Disk) *int { return &d.Limits.BurstKiB }),
	markEffectiveNow(numberField("limits.burstSeconds", "burst length", func(d *Disk) *int { return &d.Limits.BurstSeconds },
		FormInput{Section: SectionLimits, Label: "Burst length", Unit: "s", Default: 1}, 1, MaxBurstSeconds)),
}

// NICFields are the fields of a NIC that an edit changes, besides its network and its traffic filtering.
var NICFields = []Field[NIC]{
	choiceField("model", "model", func(n *NIC) *string { return &n.Model }, FormInput{Section: SectionDevice, Label: "Model", Options: NICModels, DefaultName: "virtio"}),
	numberField("queues", "queues", func(n *NIC) *int { return &n.Queues }, FormInput{Section: SectionDevice, Label: "Queues", CountUnit: "queue", Default: 1}, 1, MaxQueues),
	numberField("bootOrder", "boot order", func(n *NIC) *int { return &n.BootOrder }, FormInput{Section: SectionDevice, Label: "Boot order"}, 1, MaxBootOrder),
	markEffectiveNow(flagField("linkDown", "disconnected", func(n *NIC) *bool { return &n.LinkDown }, FormInput{Section: SectionDevice, Label: "Disconnected"})),

	rateLimitField("limits.inKiB", "inbound limit", "KiB/s", "Inbound", func(n *NIC) *int { return &n.Limits.InKiB }),
	rateLimitField("limits.inPeakKiB", "inbound peak", "KiB/s", "Inbound peak", func(n *NIC) *int { return &n.Limits.InPeakKiB }),
	rateLimitField("limits.inBurstKiB", "inbound burst", "KiB", "Inbound burst", func(n *NIC) *int { return &n.Limits.InBurstKiB }),
	rateLimitField("limits.outKiB", "outbound limit", "KiB/s", "Outbound", func(n *NIC) *int { return &n.Limits.OutKiB }),
	rateLimitField("limits.outPeakKiB", "outbound peak", "KiB/s", "Outbound peak", func(n *NIC) *int { return &n.Limits.OutPeakKiB }),
	rateLimitField("limits.outBurstKiB", "outbound burst", "KiB", "Outbound burst", func(n *NIC) *int { return &n.Limits.OutBurstKiB }),
}

// rateLimitField builds a field for an I/O or bandwidth limit. Its changes take effect at once.
func rateLimitField[S any](name, title, unit, label string, at func(*S) *int) Field[S] {
	return markEffectiveNow(numberField(name, title, at, FormInput{Section: SectionLimits, Label: label, Unit: unit}, 1, MaxRate))
}

func markEffectiveNow[S any](f Field[S]) Field[S] {
	f.TakesEffect = WhenNow
	return f
}

func markPowerOffOnly[S any](f Field[S]) Field[S] {
	f.TakesEffect = WhenPoweredOff
	return f
}

func markCreationOnly[S any](f Field[S]) Field[S] {
	f.TakesEffect = WhenNever
	return f
}

// checkEncryption adds an error for each setting that an encrypted disk cannot have.
func (d Disk) checkEncryption(c *Checks, at string) {
	switch {
	case d.Encryption == "":
	case d.Existing:
		c.Add(at+".encryption", "An existing volume cannot be encrypted. Only a new disk can.")
	case d.Image != nil || d.ImageID != "":
		c.Add(at+".encryption", "An encrypted disk starts empty. Remove the image, or the encryption.")
	}
}

// checkShareable adds an error for each setting that a shared disk cannot have.
func (d Disk) checkShareable(c *Checks, at string) {
	switch {
	case !d.Shareable:
		return
	case !d.Existing:
		c.Add(at+".shareable", "A shared disk needs an existing volume. Create a raw volume in the pool first, and choose it for each VM.")
	case d.ReadOnly:
		c.Add(at+".readOnly", "A read-only disk cannot be shared with VMs that write to it. Choose one of the two.")
	}
	if d.Cache != "" && d.Cache != "none" && d.Cache != "directsync" {
		c.Add(at+".cache", "Hosts must not cache a shared disk: choose the cache none or directsync.")
	}
}

func (d Disk) checkFields(c *Checks, at string) {
	for _, f := range DiskFields {
		f.check(c, at+"."+f.Name, d)
	}
	if d.IO == "native" && d.Cache != "none" && d.Cache != "directsync" {
		c.Add(at+".io", "Native I/O needs the cache none or directsync.")
	}
	if d.ReadOnly && (d.Bus == "sata" || d.Bus == "ide") {
		c.Add(at+".readOnly", "%s disk cannot be read-only. Choose another bus.", map[string]string{"sata": "A SATA", "ide": "An IDE"}[d.Bus])
	}
	if d.Bus == "nvme" && d.Serial == "" {
		c.Add(at+".serial", "An NVMe disk needs a serial number, by which the guest identifies it.")
	}
	d.checkShareable(c, at)
	d.checkEncryption(c, at)
	d.checkFormat(c, at)
	l := d.Limits
	for _, r := range []struct {
		total, read, write, burst int
		field, what               string
	}{
		{l.TotalIOPS, l.ReadIOPS, l.WriteIOPS, l.BurstIOPS, "Iops", "operations"},
		{l.TotalKiB, l.ReadKiB, l.WriteKiB, l.BurstKiB, "KiB", "throughput"},
	} {
		if r.total > 0 && (r.read > 0 || r.write > 0) {
			c.Add(at+".limits.total"+r.field, "Limit the total %s, or reads and writes, not both.", r.what)
		}
		if r.burst > 0 && r.burst <= r.total || r.burst > 0 && r.total == 0 {
			c.Add(at+".limits.burst"+r.field, "A burst must be above the limit of the total %s.", r.what)
		}
	}
	if l.BurstSeconds > 0 && l.BurstIOPS == 0 && l.BurstKiB == 0 {
		c.Add(at+".limits.burstSeconds", "Enter a burst, or remove the burst length.")
	}
}

func (n NIC) checkFields(c *Checks, at string) {
	for _, f := range NICFields {
		f.check(c, at+"."+f.Name, n)
	}
	if n.Queues > 1 && n.Model != "" {
		c.Add(at+".queues", "Only a virtio NIC can have several queues.")
	}
	l := n.Limits
	for _, r := range []struct {
		limit, peak, burst int
		field              string
	}{{l.InKiB, l.InPeakKiB, l.InBurstKiB, "in"}, {l.OutKiB, l.OutPeakKiB, l.OutBurstKiB, "out"}} {
		if r.peak > 0 && r.peak < max(r.limit, 1) || r.peak > 0 && r.limit == 0 {
			c.Add(at+".limits."+r.field+"PeakKiB", "A peak must be above the limit. Enter both, or no peak.")
		}
		if r.burst > 0 && r.limit == 0 {
			c.Add(at+".limits."+r.field+"BurstKiB", "Enter a limit, or remove the burst.")
		}
	}
}

// checkBootOrder adds an error if two devices have the same boot order.
func (s VMSpec) checkBootOrder(c *Checks, prefix string) {
	users := map[int]string{}
	note := func(n int, field, what string) {
		switch {
		case n <= 0:
		case users[n] != "":
			c.Add(field, "Boot order %d is already used by %s.", n, users[n])
		default:
			users[n] = what
		}
	}
	for i, d := range s.Disks {
		note(d.BootOrder, fmt.Sprintf("%s.disks[%d].bootOrder", prefix, i), fmt.Sprintf("disk %d", i+1))
	}
	for i, n := range s.NICs {
		note(n.BootOrder, fmt.Sprintf("%s.nics[%d].bootOrder", prefix, i), fmt.Sprintf("NIC %d", i+1))
	}
	for i, d := range s.Drives {
		note(d.BootOrder, fmt.Sprintf("%s.drives[%d].bootOrder", prefix, i), "another drive")
	}
	note(s.Boot.CDROM, prefix+".boot.cdrom", "the CD-ROM")
}

// canHotPlugCPUs reports whether the running guest can be brought to the number of vCPUs by hot-plug or hot-unplug.
func (vm VM) canHotPlugCPUs(to VMSpec) bool {
	return vm.HasGuest() && to.CPUs >= cmp.Or(vm.Status.MinCPUs, vm.Status.CPUs) && to.CPUs <= max(vm.Status.CPUs, vm.Status.MaxCPUs)
}

// MemoryStep is the size of hot-plugged memory modules, MiB.
const MemoryStep = 128

// canHotPlugMemory reports whether the change of memory is possible by hot-plug, or by a hot-unplug request to the
// running guest. The guest may refuse the request, which then stays pending.
func (vm VM) canHotPlugMemory(to VMSpec) bool {
	if !vm.HasGuest() {
		return false
	}
	more := to.MemoryMiB - vm.Status.MemoryMiB
	less := []int{-more}
	if len(vm.Spec.NUMA) > 0 || len(to.NUMA) > 0 {
		was, is := vm.Spec.NUMA, to.NUMA
		if more < 0 {
			was, is = is, was
		}
		nodes, ok := MemoryGainPerNode(was, is)
		if !ok || vm.Spec.MemoryMiB != vm.Status.MemoryMiB {
			return false
		}
		less = nodes
	}
	if more < 0 {
		_, ok := ModulesToUnplug(vm.Status.Modules, less)
		return ok
	}
	return more%MemoryStep == 0 && to.MemoryMiB <= max(vm.Status.MemoryMiB, vm.Status.MaxMemory)
}
