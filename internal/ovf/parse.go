package ovf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// CIM resource types.
const (
	kindCPU = 3 + iota
	kindMemory
	kindIDE
	kindSCSI
	kindOther   = 1
	kindNIC     = 10
	kindFloppy  = 14
	kindCD      = 15
	kindDVD     = 16
	kindDisk    = 17
	kindSATA    = 20
	kindSerial  = 21
	kindUSB     = 23
	kindDisplay = 24
	kindSound   = 35
)

// droppedDevices are the notes about devices that are not imported, by CIM resource type.
var droppedDevices = map[int]string{
	kindFloppy: "A floppy drive.", kindSerial: "A serial port: every VM here has one of its own.", kindSound: "A sound card.",
	kindCD: "A CD drive with its disc: insert a disc into the VM's drive afterwards.", kindDVD: "A CD drive with its disc: insert a disc into the VM's drive afterwards.",
}

// ignoredKinds are CIM resource types that are dropped without a note, because every VM here has such a device.
var ignoredKinds = []int{kindUSB, kindDisplay}

// descriptorParser is the state while one descriptor is parsed. Its methods read sections of the descriptor into out.
type descriptorParser struct {
	envelope
	files       []File
	out         fleet.Appliance
	configured  string                // ID of the chosen deployment option
	controllers map[string]controller // disk controllers by instance ID
	disks       []placedDisk
	usedFiles   []string // file references that disks use
}

// Parse parses a descriptor and returns its VM. Files that the descriptor refers to must be among files.
func Parse(text []byte, files []File) (fleet.Appliance, error) {
	e, err := decodeDescriptor(text)
	if err != nil {
		return fleet.Appliance{}, err
	}
	p := descriptorParser{envelope: e, files: files, controllers: map[string]controller{}}
	if err := p.read(); err != nil {
		return fleet.Appliance{}, err
	}
	if more := len(p.out.NotImported) - fleet.MaxApplianceNotes; more > 0 {
		p.out.NotImported = append(p.out.NotImported[:fleet.MaxApplianceNotes-1], fmt.Sprintf("And %d more.", more+1))
	}
	return p.out, nil
}

func (p *descriptorParser) addNote(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(p.out.NotImported, text) {
		p.out.NotImported = append(p.out.NotImported, text)
	}
}

func (p *descriptorParser) read() error {
	s, err := p.onlyVirtualSystem()
	if err != nil {
		return err
	}
	if err := p.checkReferences(); err != nil {
		return err
	}
	p.out.Name = cmp.Or(cleanLine(s.Name), cleanLine(s.ID))
	p.out.Firmware = fleet.BIOS
	p.readMachineSections(s)
	if len(s.Hardware) != 1 {
		return invalidError("The descriptor has %d hardware sections for its machine; one is supported.", len(s.Hardware))
	}
	if err := p.readHardware(s.Hardware[0]); err != nil {
		return err
	}
	for _, f := range p.files {
		i := slices.IndexFunc(p.Files, func(r reference) bool { return r.Href == f.Name })
		if i < 0 || !slices.Contains(p.usedFiles, p.Files[i].ID) {
			p.addNote("The file %s, which is no disk of the machine.", f.Name)
		}
	}
	return nil
}

// onlyVirtualSystem returns the only VM in the descriptor, or an error if there are none or several.
func (p *descriptorParser) onlyVirtualSystem() (system, error) {
	all := p.Systems
	for _, c := range p.Collections {
		if len(c.Nested) > 0 {
			return system{}, invalidError("The descriptor has nested collections of machines. Export a single machine.")
		}
		all = append(all, c.Systems...)
	}
	switch len(all) {
	case 0:
		return system{}, invalidError("The descriptor describes no machine.")
	case 1:
		return all[0], nil
	}
	return system{}, invalidError("The descriptor describes %d machines. Export each machine separately.", len(all))
}

// checkReferences checks that all files that the descriptor refers to are in the archive and have the stated size.
func (p *descriptorParser) checkReferences() error {
	if len(p.Files) > MaxFiles {
		return invalidError("The descriptor refers to more than %d files.", MaxFiles)
	}
	seen := map[string]bool{}
	for n, r := range p.Files {
		i := fileIndex(p.files, r.Href)
		if i >= 0 {
			p.Files[n].Href = p.files[i].Name
		}
		switch {
		case r.ID == "" || seen[r.ID]:
			return invalidError("The descriptor has a reference without an id, or two of the id %q.", cleanLine(r.ID))
		case strings.Contains(r.Href, "://"):
			return invalidError("The descriptor refers to %q, which is not in the archive. Nothing is fetched from elsewhere.", cleanLine(r.Href))
		case r.ChunkSize != "":
			return invalidError("%s is cut into pieces. Join the pieces in order into one file, remove chunkSize from the descriptor, and pack the archive again.", cleanLine(r.Href))
		case i < 0 && checkFileName(r.Href) != nil:
			return invalidError("The descriptor refers to %q, which is no file of the archive.", cleanLine(r.Href))
		case i < 0:
			return invalidError("The descriptor refers to %s, which is not in the archive.", cleanLine(r.Href))
		case r.Size != "" && strings.TrimSpace(r.Size) != strconv.FormatInt(p.files[i].Size, 10):
			return invalidError("%s has %d bytes, but the descriptor says %s. The archive is incomplete.", r.Href, p.files[i].Size, cleanLine(r.Size))
		case r.Compression != "" && r.Compression != "identity":
			return invalidError("%s is packed by %s. Unpack it first.", r.Href, cleanLine(r.Compression))
		}
		seen[r.ID] = true
	}
	return nil
}

// readMachineSections reads the VM's sections other than its hardware.
func (p *descriptorParser) readMachineSections(s system) {
	if s.OS != nil {
		p.out.OS = cmp.Or(cleanLine(s.OS.Description), cleanLine(s.OS.Type))
		p.out.Family = osFamily(s.OS.ID, s.OS.Type+" "+s.OS.Description)
	}
	properties := 0
	for _, x := range s.Products {
		properties += len(x.Properties)
		p.out.Product = cmp.Or(p.out.Product, cleanLine(x.Vendor+" "+x.Product+" "+x.Version))
	}
	if properties > 0 {
		p.addNote("%s for the guest's first start (vApp properties): give the VM first-boot data instead.", countText(properties, "One value", "values"))
	}
	for _, o := range p.Options {
		if o.Default == "true" || p.configured == "" {
			p.configured = o.ID
		}
	}
	if len(p.Options) > 1 {
		p.addNote("Its other deployment options: of the %d options, %q is used.", len(p.Options), cleanLine(p.configured))
	}
	for _, m := range s.VirtualBox {
		if strings.HasPrefix(strings.ToUpper(m.Firmware.Type), "EFI") {
			p.out.Firmware = fleet.UEFI
		}
		p.addNote("VirtualBox's own settings of the machine, except the firmware.")
	}
	for _, a := range append(slices.Clone(p.Sections), s.Sections...) {
		switch name := cleanLine(a.XMLName.Local); name {
		case "Name", "Info", "Strings", "AnnotationSection":
		case "EulaSection":
			p.addNote("Its licence agreement: read it at the source of the file.")
		default:
			p.addNote("Its section %s.", name)
		}
	}
}

func countText(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// osFamily returns the OS family of the guest, by its CIM number or by its name.
func osFamily(id, words string) string {
	words = strings.ToLower(words)
	for _, f := range []struct{ of, word string }{
		{"windows", "windows"},
		{"windows", "winnet"},
		{"windows", "winlonghorn"},
		{"bsd", "bsd"},
		{"linux", "linux"},
		{"linux", "ubuntu"},
		{"linux", "debian"},
		{"linux", "rhel"},
		{"linux", "red hat"},
		{"linux", "centos"},
		{"linux", "fedora"},
		{"linux", "suse"},
		{"linux", "sles"},
		{"linux", "photon"},
		{"linux", "coreos"},
		{"linux", "alma"},
		{"linux", "rocky"},
	} {
		if strings.Contains(words, f.word) {
			return f.of
		}
	}
	switch n, _ := strconv.Atoi(id); {
	case n >= 67 && n <= 77 || n == 58 || n == 63 || n >= 103 && n <= 105 || n >= 115 && n <= 117:
		return "windows"
	case n == 36 || n >= 79 && n <= 101 || n >= 106 && n <= 114:
		return "linux"
	case n == 42 || n == 78 || n == 65:
		return "bsd"
	case words == " " || strings.TrimSpace(words) == "" && n == 0:
		return ""
	}
	return "other"
}

func (p *descriptorParser) readHardware(h hardware) error {
	items := slices.Concat(h.Items, h.Storage, h.Ports)
	if len(items) > 256 {
		return invalidError("The descriptor has more than 256 devices.")
	}
	items = slices.DeleteFunc(items, func(i hardwareItem) bool {
		return i.Bound != "" && i.Bound != "normal" || i.Configuration != "" && !slices.Contains(strings.Fields(i.Configuration), p.configured)
	})
	for _, i := range items {
		p.readController(i)
	}
	for _, i := range items {
		if err := p.readItem(i); err != nil {
			return err
		}
	}
	p.out.Disks = sortInFirmwareOrder(p.disks)
	p.readFirmware(h)
	if p.out.CPUs == 0 || p.out.MemoryMiB == 0 {
		p.addNote("The number of vCPUs or the memory size: the descriptor does not contain it.")
	}
	return nil
}

// readFirmware reads the VM's firmware from VMware's settings. VirtualBox stores the firmware outside the hardware
// section.
func (p *descriptorParser) readFirmware(h hardware) {
	for _, c := range append(slices.Clone(h.Config), h.Extra...) {
		switch {
		case c.Key == "firmware" && strings.EqualFold(c.Value, "efi"):
			p.out.Firmware = fleet.UEFI
		case strings.Contains(strings.ToLower(c.Key), "secureboot") && strings.EqualFold(c.Value, "true"):
			p.addNote("Secure boot: enable it in the VM's settings if the guest's boot loader is signed.")
		case strings.Contains(c.Key, "nvram"):
			p.addNote("Its firmware variables (NVRAM): the firmware starts with new ones and searches for the boot loader.")
		}
	}
}

// readController records a disk controller.
func (p *descriptorParser) readController(i hardwareItem) {
	sub := strings.ToLower(strings.TrimSpace(i.SubType))
	name := ""
	kind, _ := strconv.Atoi(strings.TrimSpace(i.Type))
	switch {
	case kind == kindIDE:
		name = "ide"
	case kind == kindSCSI && sub == "virtualscsi":
		name = "pvscsi"
	case kind == kindSCSI && slices.Contains([]string{"lsilogic", "lsilogicsas", "buslogic"}, sub):
		name = sub
	case kind == kindSCSI:
		name = "lsilogic"
	case kind == kindSATA && strings.Contains(sub, "nvme"):
		name = "nvme"
	case kind == kindSATA:
		name = "sata"
	}
	if name != "" {
		p.controllers[strings.TrimSpace(i.Instance)] = controller{name, kind, parseAddress(i.Address), len(p.controllers)}
	}
}

func (p *descriptorParser) readItem(i hardwareItem) error {
	kind, err := strconv.Atoi(strings.TrimSpace(i.Type))
	if err != nil {
		return invalidError("The descriptor has a device of the type %q, which is no number.", cleanLine(i.Type))
	}
	count := func(what string, most int64, unit int64) (int64, error) {
		n, err := parseBytes(what, i.Quantity, i.Units, unit)
		if err == nil && (n == 0 || n > most) {
			err = invalidError("The descriptor gives %s as %q, which no machine here can have.", what, cleanLine(i.Quantity+" "+i.Units))
		}
		return n, err
	}
	switch kind {
	case kindCPU:
		if p.out.CPUs > 0 {
			return invalidError("The descriptor gives the number of vCPUs twice.")
		}
		i.Units = "" // the unit "hertz * 10^6" of CPU items concerns CPU reservations, not the number of CPUs
		n, err := count("its vCPUs", fleet.MaxCPUs, 1)
		p.out.CPUs = int(n)
		return err
	case kindMemory:
		if p.out.MemoryMiB > 0 {
			return invalidError("The descriptor gives the memory size twice.")
		}
		n, err := count("its memory", fleet.MaxMemoryMiB<<20, 1<<20)
		p.out.MemoryMiB = int((n + 1<<20 - 1) >> 20)
		return err
	case kindDisk:
		return p.readDisk(i)
	case kindNIC:
		return p.readNIC(i)
	case kindIDE, kindSCSI, kindSATA:
		return nil
	}
	switch what, known := droppedDevices[kind]; {
	case known:
		p.addNote("%s", what)
	case slices.Contains(ignoredKinds, kind):
	case kind == kindOther && strings.Contains(strings.ToLower(i.SubType), "vtpm"):
		p.addNote("Its TPM with its contents: data that the guest has sealed with the TPM (BitLocker, LUKS) needs its recovery key.")
	case kind == kindOther && strings.Contains(strings.ToLower(i.SubType), "vmci"):
	default:
		p.addNote("The device %s.", cmp.Or(cleanLine(i.Name), cleanLine(i.SubType), "of the type "+strconv.Itoa(kind)))
	}
	return nil
}

func (p *descriptorParser) readNIC(i hardwareItem) error {
	if len(p.out.NICs) >= fleet.MaxNICs {
		return invalidError("The descriptor has more than %d NICs.", fleet.MaxNICs)
	}
	n := fleet.ApplianceNIC{}
	if len(i.Connection) > 0 {
		n.Network = cleanLine(i.Connection[0])
		if !slices.ContainsFunc(p.Networks, func(o network) bool { return cleanLine(o.Name) == n.Network }) {
			return invalidError("The descriptor has a NIC on %q, which is none of its networks.", n.Network)
		}
	}
	sub := strings.ToLower(strings.TrimSpace(i.SubType))
	for _, m := range []string{"vmxnet3", "vmxnet2", "e1000e", "e1000", "pcnet", "virtio"} {
		if strings.Contains(sub, m) {
			n.Model = m
			break
		}
	}
	if n.Model == "" && sub != "" {
		p.addNote("The NIC model %s.", cleanLine(i.SubType))
	}
	p.out.NICs = append(p.out.NICs, n)
	return nil
}
