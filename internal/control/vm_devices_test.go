package control_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// supportAllFields makes the hosts' agents support all VM fields.
func (s *projectFixture) supportAllFields(devices string) {
	s.t.Helper()
	names, err := json.Marshal(fleet.OptionalFieldNames())
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', $1::jsonb)`, string(names))
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,devices}', $2::jsonb) WHERE id = $1`, s.h1, devices)
}

const someDevicesJSON = `[{"device":"pci/0000:41:00.0","name":"NVIDIA L40S","iommu":"17"},{"device":"pci/0000:00:1f.3","name":"Sound"},{"device":"usb/046d:c52b","name":"Receiver"},
{"device":"usb-port/1-2.3","empty":true},{"device":"mdev/nvidia-63","name":"GRID T4-2Q","parents":["0000:42:00.0"],"most":2,"free":2},{"device":"mdev/nvidia-64"},
	{"device":"blk/wwn-0x5000","name":"Disk (sdb)","sizeBytes":4000787030016},{"device":"blk/ata-ROOT","name":"Disk (sda)","sizeBytes":4000787030016,"busy":"mounted at /"}]`

// Invalid devices are refused at their field, and nothing is written.
func TestInvalidDevicesRefused(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	for _, v := range []string{`{"name":"floppy.img","path":"/v/floppy.img","format":"raw","capacityBytes":1474560}`, `{"name":"vmlinuz","path":"/v/vmlinuz","format":"raw","capacityBytes":9000000}`} {
		s.addVolume(s.local, s.h1, v)
	}
	chief := s.addUser("ada", fleet.RoleAdmin)
	in := func(volume string) *fleet.Volref { return &fleet.Volref{PoolID: s.local, Volume: volume} }
	drive := func(slot string, medium *fleet.Volref) func(*fleet.VMSpec) {
		return func(s *fleet.VMSpec) { s.Drives = []fleet.VMDrive{{Slot: slot, Medium: medium}} }
	}
	device := func(names ...string) func(*fleet.VMSpec) {
		return func(s *fleet.VMSpec) {
			for _, n := range names {
				s.HostDevices = append(s.HostDevices, fleet.VMHostDevice{Device: n})
			}
		}
	}
	share := func(tag, folder string) func(*fleet.VMSpec) {
		return func(v *fleet.VMSpec) {
			v.Memory.Shared, v.Shares = true, []fleet.VMShare{{Tag: tag, Folder: fleet.Volref{PoolID: s.local, Volume: folder}}}
		}
	}
	kernel := func(volume, line string) func(*fleet.VMSpec) {
		return func(s *fleet.VMSpec) { s.Boot.Kernel, s.Boot.Cmdline = in(volume), line }
	}
	const slots, isoName, deviceName, tagForm, folder, oneLine = "Choose one of cdrom2", "Choose a volume", "Enter a device as the host's page lists it:", "A tag has", "not a path", "one line of at most"
	nul, rtl, long := "a\x00b", "a\u202eb", strings.Repeat("a", 300)
	for name, c := range map[string]struct {
		change      func(*fleet.VMSpec)
		field, says string
	}{
		"no slot":                    {drive("", nil), "drives[0].slot", slots},
		"the first drive's":          {drive("cdrom1", nil), "drives[0].slot", slots},
		"a fifth drive":              {drive("cdrom5", nil), "drives[0].slot", slots},
		"a slot like an option":      {drive("-rf", nil), "drives[0].slot", slots},
		"a slot with a command":      {drive("a;id", nil), "drives[0].slot", slots},
		"a slot with markup":         {drive("cdrom2'/><x", nil), "drives[0].slot", slots},
		"a slot that ends a section": {drive("]]>", nil), "drives[0].slot", slots},
		"a slot with a NUL":          {drive(nul, nil), "drives[0].slot", slots},
		"a slot to the left":         {drive(rtl, nil), "drives[0].slot", slots},
		"a slot in capitals":         {drive("CDROM2", nil), "drives[0].slot", slots},
		"a drive twice":              {func(s *fleet.VMSpec) { s.Drives = []fleet.VMDrive{{Slot: "cdrom2"}, {Slot: "cdrom2"}} }, "drives[1]", "Second CD-ROM is listed twice"},
		"too many drives":            {func(s *fleet.VMSpec) { s.Drives = make([]fleet.VMDrive, 6) }, "drives", "at most 5 drives"},
		"a place below the first":    {func(s *fleet.VMSpec) { s.Drives = []fleet.VMDrive{{Slot: "cdrom2", BootOrder: -1}} }, "drives[0].bootOrder", "from 1 to 64"},
		"a place beyond all":         {func(s *fleet.VMSpec) { s.Drives = []fleet.VMDrive{{Slot: "cdrom2", BootOrder: 65}} }, "drives[0].bootOrder", "from 1 to 64"},
		"two drives in a place": {func(s *fleet.VMSpec) {
			s.Drives = []fleet.VMDrive{{Slot: "cdrom2", BootOrder: 1}, {Slot: "cdrom3", BootOrder: 1}}
		}, "drives[1].bootOrder", "already"},
		"a drive in the first's":     {func(s *fleet.VMSpec) { s.Boot.CDROM, s.Drives = 2, []fleet.VMDrive{{Slot: "floppy1", BootOrder: 2}} }, "boot.cdrom", "already"},
		"a medium without a pool":    {drive("cdrom2", &fleet.Volref{Volume: "cd.iso"}), "drives[0].medium.poolId", "Choose a pool"},
		"a medium without a name":    {drive("cdrom2", in("")), "drives[0].medium.volume", isoName},
		"a medium elsewhere":         {drive("cdrom2", in("../../etc/shadow")), "drives[0].medium.volume", isoName},
		"a medium that is a path":    {drive("cdrom2", in("/etc/shadow")), "drives[0].medium.volume", isoName},
		"a medium like an option":    {drive("cdrom2", in("-rf")), "drives[0].medium.volume", `no volume "-rf"`},
		"a medium with a NUL":        {drive("cdrom2", in(nul)), "drives[0].medium.volume", isoName},
		"a medium with a long name":  {drive("cdrom2", in(long)), "drives[0].medium.volume", isoName},
		"a medium that is not there": {drive("cdrom2", in("gone.iso")), "drives[0].medium.volume", "has no volume"},
		"a medium that is a disk":    {drive("cdrom2", in("debian.qcow2")), "drives[0].medium.volume", "is not an ISO image"},
		"a medium of no pool":        {drive("cdrom2", &fleet.Volref{PoolID: fleet.NewID[fleet.PoolID](), Volume: "cd.iso"}), "drives[0].medium.poolId", "There is no such pool"},
		"a floppy that is a qcow2":   {drive("floppy1", in("debian.qcow2")), "drives[0].medium.volume", "is not a floppy"},
		"a floppy that is too large": {drive("floppy1", in("vmlinuz")), "drives[0].medium.volume", "is not a floppy"},
		"a CD that is a floppy":      {drive("cdrom4", in("floppy.img")), "drives[0].medium.volume", "is not an ISO image"},
		"a device without a kind":    {device("0000:41:00.0"), "hostDevices[0].device", deviceName},
		"a device of no name":        {device(""), "hostDevices[0].device", deviceName},
		"a device by its path":       {device("pci/../../dev/sda"), "hostDevices[0].device", deviceName},
		"a device like an option":    {device("-rf"), "hostDevices[0].device", deviceName},
		"a device with a command":    {device("usb/046d:c52b;id"), "hostDevices[0].device", deviceName},
		"a device with markup":       {device("pci/0000:41:00.0'/>"), "hostDevices[0].device", deviceName},
		"a device in two lines":      {device("pci/0000:41:00.0\n"), "hostDevices[0].device", deviceName},
		"a device with a NUL":        {device("usb/046d:c52b\x00"), "hostDevices[0].device", deviceName},
		"a device to the left":       {device("usb/\u202e046d:c52b"), "hostDevices[0].device", deviceName},
		"an eighth function":         {device("pci/0000:41:00.8"), "hostDevices[0].device", deviceName},
		"a slot beyond all":          {device("pci/0000:41:20.0"), "hostDevices[0].device", deviceName},
		"an address in capitals":     {device("pci/0000:AB:00.0"), "hostDevices[0].device", deviceName},
		"half a USB device":          {device("usb/046d"), "hostDevices[0].device", deviceName},
		"a mediated device":          {device("mdev/c2177883-f1bb-47f0-914d-32a22e3a8804"), "hostDevices[0].device", deviceName},
		"a port of no bus":           {device("usb-port/1"), "hostDevices[0].device", deviceName},
		"a root hub":                 {device("usb-port/usb1"), "hostDevices[0].device", deviceName},
		"a port by its path":         {device("usb-port/../1-2.3"), "hostDevices[0].device", deviceName},
		"an interface of a device":   {device("usb-port/1-2:1.0"), "hostDevices[0].device", deviceName},
		"a port that goes on":        {device("usb-port/1-2.3."), "hostDevices[0].device", deviceName},
		"a port beyond all tiers":    {device("usb-port/1-1.1.1.1.1.1.1"), "hostDevices[0].device", deviceName},
		"a port in two lines":        {device("usb-port/1-2.3\n"), "hostDevices[0].device", deviceName},
		"a port that is not there":   {device("usb-port/1-9"), "hostDevices[0].device", "has no device"},
		"no type":                    {device("mdev/"), "hostDevices[0].device", deviceName},
		"a type by its path":         {device("mdev/../nvidia-63"), "hostDevices[0].device", deviceName},
		"a type like an option":      {device("mdev/-rf"), "hostDevices[0].device", deviceName},
		"a type with markup":         {device("mdev/a'/>"), "hostDevices[0].device", deviceName},
		"a type that is long":        {device("mdev/" + strings.Repeat("a", 64)), "hostDevices[0].device", deviceName},
		"a type that is not there":   {device("mdev/nvidia-65"), "hostDevices[0].device", "has no device"},
		"a type that is used up":     {device("mdev/nvidia-64"), "hostDevices[0].device", "used in another way"},
		"a type twice":               {device("mdev/nvidia-63", "mdev/nvidia-63"), "hostDevices[1]", "mdev/nvidia-63 is listed twice"},
		"NUMA nodes that lack a vCPU": {func(s *fleet.VMSpec) {
			s.CPUs, s.NUMA = 3, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 128}, {CPUs: "1", MemoryMiB: s.MemoryMiB - 128}}
		}, "numa", "vCPU 2 is in no node"},
		"a device twice":            {device("usb/046d:c52b", "usb/046d:c52b"), "hostDevices[1]", "usb/046d:c52b is listed twice"},
		"too many devices":          {func(s *fleet.VMSpec) { s.HostDevices = make([]fleet.VMHostDevice, 17) }, "hostDevices", "at most 16"},
		"a device of nobody":        {device("pci/0000:42:00.0"), "hostDevices[0].device", "has no device"},
		"a device that stays":       {device("pci/0000:00:1f.3"), "hostDevices[0].device", "no IOMMU group"},
		"a device of another host":  {func(v *fleet.VMSpec) { v.HostDevices = []fleet.VMHostDevice{{HostID: s.h2, Device: "usb/046d:c52b"}} }, "hostDevices[0].device", "of another host"},
		"no disk":                   {device("blk/"), "hostDevices[0].device", deviceName},
		"a disk by its path":        {device("blk//dev/sda"), "hostDevices[0].device", deviceName},
		"a disk above":              {device("blk/../../sda"), "hostDevices[0].device", deviceName},
		"a disk below":              {device("blk/a/b"), "hostDevices[0].device", deviceName},
		"a disk like an option":     {device("blk/-rf"), "hostDevices[0].device", deviceName},
		"a disk with a command":     {device("blk/a;id"), "hostDevices[0].device", deviceName},
		"a disk with markup":        {device("blk/a'/>"), "hostDevices[0].device", deviceName},
		"a disk with a comma":       {device("blk/a,file=b"), "hostDevices[0].device", deviceName},
		"a disk in two lines":       {device("blk/a\n"), "hostDevices[0].device", deviceName},
		"a disk with a NUL":         {device("blk/" + nul), "hostDevices[0].device", deviceName},
		"a disk to the left":        {device("blk/" + rtl), "hostDevices[0].device", deviceName},
		"a disk of a long name":     {device("blk/" + strings.Repeat("a", 201)), "hostDevices[0].device", deviceName},
		"a disk of the kernel's":    {device("sda"), "hostDevices[0].device", deviceName},
		"a disk twice":              {device("blk/wwn-0x5000", "blk/wwn-0x5000"), "hostDevices[1]", "blk/wwn-0x5000 is listed twice"},
		"a disk of nobody":          {device("blk/ata-NONE"), "hostDevices[0].device", "has no device"},
		"a disk that the host uses": {device("blk/ata-ROOT"), "hostDevices[0].device", "h1 uses blk/ata-ROOT itself: the disk is mounted at /"},
		"a disk of another host":    {func(v *fleet.VMSpec) { v.HostDevices = []fleet.VMHostDevice{{HostID: s.h2, Device: "blk/wwn-0x5000"}} }, "hostDevices[0].device", "of another host"},
		"a device of no host": {func(v *fleet.VMSpec) {
			v.HostDevices = []fleet.VMHostDevice{{HostID: "h1'--", Device: "usb/046d:c52b"}}
		}, "hostDevices[0].hostId", "no such host"},
		"a share of usual memory":     {func(v *fleet.VMSpec) { share("src", "src")(v); v.Memory.Shared = false }, "memory.shared", "Shared folders need shared memory."},
		"a tag of nothing":            {share("", "src"), "shares[0].tag", tagForm},
		"a tag like an option":        {share("-o", "src"), "shares[0].tag", tagForm},
		"a tag with markup":           {share("a'/>", "src"), "shares[0].tag", tagForm},
		"a tag with a comma":          {share("a,path=/", "src"), "shares[0].tag", tagForm},
		"a tag with a NUL":            {share(nul, "src"), "shares[0].tag", tagForm},
		"a tag to the left":           {share(rtl, "src"), "shares[0].tag", tagForm},
		"a tag that is long":          {share(strings.Repeat("a", 37), "src"), "shares[0].tag", tagForm},
		"a folder above":              {share("src", ".."), "shares[0].folder.volume", folder},
		"the pool itself":             {share("src", "."), "shares[0].folder.volume", folder},
		"a folder elsewhere":          {share("src", "../../etc"), "shares[0].folder.volume", folder},
		"a folder by its path":        {share("src", "/etc"), "shares[0].folder.volume", folder},
		"a folder below another":      {share("src", "a/b"), "shares[0].folder.volume", folder},
		"a hidden folder":             {share("src", ".ssh"), "shares[0].folder.volume", folder},
		"a folder with a NUL":         {share("src", nul), "shares[0].folder.volume", folder},
		"a folder of no pool":         {func(v *fleet.VMSpec) { share("src", "src")(v); v.Shares[0].Folder.PoolID = "" }, "shares[0].folder.poolId", "Choose the folder's pool"},
		"a tag twice":                 {func(v *fleet.VMSpec) { share("src", "src")(v); v.Shares = append(v.Shares, v.Shares[0]) }, "shares[1]", "src is listed twice"},
		"too many shares":             {func(v *fleet.VMSpec) { v.Memory.Shared, v.Shares = true, make([]fleet.VMShare, 9) }, "shares", "at most 8"},
		"a line without a kernel":     {func(s *fleet.VMSpec) { s.Boot.Cmdline = "quiet" }, "boot.kernel", "An initial RAM disk or command line needs a"},
		"a RAM disk without a kernel": {func(s *fleet.VMSpec) { s.Boot.Initrd = in("vmlinuz") }, "boot.kernel", "An initial RAM disk or command line needs a"},
		"a kernel by its path":        {kernel("/boot/vmlinuz", ""), "boot.kernel.volume", isoName},
		"a kernel above":              {kernel("../vmlinuz", ""), "boot.kernel.volume", isoName},
		"a kernel that is not there":  {kernel("bzImage", ""), "boot.kernel.volume", "has no volume"},
		"a kernel that is an image":   {kernel("debian.qcow2", ""), "boot.kernel.volume", "is not a plain file"},
		"a line in two lines":         {kernel("vmlinuz", "quiet\ninit=/bin/sh"), "boot.cmdline", oneLine},
		"a line with a NUL":           {kernel("vmlinuz", nul), "boot.cmdline", oneLine},
		"a line to the left":          {kernel("vmlinuz", rtl), "boot.cmdline", oneLine},
		"a line that is long":         {kernel("vmlinuz", strings.Repeat("a", 1001)), "boot.cmdline", oneLine},
		"a floor below all":           {func(s *fleet.VMSpec) { s.Memory.BalloonMiB = 64 }, "memory.balloonMiB", "from 128"},
		"a floor below none":          {func(s *fleet.VMSpec) { s.Memory.BalloonMiB = -1 }, "memory.balloonMiB", "from 128"},
		"more than it has":            {func(s *fleet.VMSpec) { s.Memory.BalloonMiB = s.MemoryMiB + 1 }, "memory.balloonMiB", "The balloon target must not exceed the VM's"},
		"less without a balloon":      {func(s *fleet.VMSpec) { s.Memory.BalloonMiB, s.Devices.Balloon = 128, "none" }, "memory.balloonMiB", "Choose a balloon"},
		"a balloon of Xen":            {func(s *fleet.VMSpec) { s.Devices.Balloon = "xen" }, "devices.balloon", "Choose one of reporting, none"},
		"ports below none":            {func(s *fleet.VMSpec) { s.Devices.Serials = -1 }, "devices.serials", "from 1 to 3"},
		"a fifth port":                {func(s *fleet.VMSpec) { s.Devices.Serials = 4 }, "devices.serials", "from 1 to 3"},
		"redirection without SPICE":   {func(s *fleet.VMSpec) { s.Display.USBRedirection = 1 }, "display.usbRedirection", "USB redirection needs SPICE"},
		"redirection beyond all":      {func(s *fleet.VMSpec) { s.Display.Spice, s.Display.USBRedirection = true, 5 }, "display.usbRedirection", "from 1 to 4"},
		"an unknown watchdog":         {func(s *fleet.VMSpec) { s.Devices.Watchdog = "ib700" }, "devices.watchdog", "Choose one of i6300esb, itco"},
	} {
		order := control.CreateVM{ProjectID: s.red, Name: "fresh", HostID: s.h1, Spec: smallSpec}
		order.Spec.Disks, order.Spec.NICs = nil, nil
		c.change(&order.Spec)
		before := s.stateSummary()
		_, err := s.CreateVM(t.Context(), chief, order)
		refused, ok := errors.AsType[*fleet.Error](err)
		found := false
		if ok {
			for _, f := range refused.Fields {
				found = found || f.Field == "spec."+c.field && strings.Contains(f.Message, c.says)
			}
		}
		if !found || s.stateSummary() != before {
			t.Errorf("%s: %+v (written: %s, before: %s), want %q at %s", name, err, s.stateSummary(), before, c.says, c.field)
		}
	}
}

// A host device belongs to one VM, and only administrators can assign it. A VM with a host device cannot leave its
// host.
func TestHostDeviceIsExclusive(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	chief := s.addUser("ada", fleet.RoleAdmin)
	order := control.CreateVM{ProjectID: s.red, Name: "gpu", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, HostDevices: []fleet.VMHostDevice{{Device: "pci/0000:41:00.0"}}}}
	create := func(a fleet.Actor) func() error {
		return func() error { _, err := s.CreateVM(t.Context(), a, order); return err }
	}
	s.wantRefused("a tenant's", fleet.Invalid, "Choose the host that has the device", create(s.member))
	order.HostID = s.h1
	s.wantRefused("a tenant's on that host", fleet.Invalid, "", create(s.member))
	s.wantRefused("without its host", fleet.Invalid, "Choose the host that has the device", func() error {
		in := order
		in.HostID = ""
		_, err := s.CreateVM(t.Context(), chief, in)
		return err
	})
	vm, err := s.CreateVM(t.Context(), chief, order)
	if err != nil || vm.HostID != s.h1 || vm.Spec.HostDevices[0].HostID != s.h1 {
		t.Fatalf("made: %+v, %v", vm.Spec.HostDevices, err)
	}
	if devices, err := s.HostDevicesOf(t.Context(), chief, s.h1); err != nil || len(devices) != 1 || devices["pci/0000:41:00.0"].ID != vm.ID {
		t.Errorf("the host's devices are held by %+v, %v", devices, err)
	}
	order.Name = "second"
	s.wantRefused("one that another VM has", fleet.Invalid, "is already assigned to the VM gpu", create(chief))
	other := s.createVM("web", fleet.Stopped)
	taking := func(device string) func() error {
		return func() error {
			_, _, err := s.UpdateVM(t.Context(), chief, other.ID, editedSpec(other, func(v *fleet.VMSpec) { v.HostDevices = []fleet.VMHostDevice{{Device: device}} }))
			return err
		}
	}
	s.execSQL(`UPDATE vms SET host_id = $2 WHERE id = $1`, other.ID, s.h1)
	s.wantRefused("an edit with another VM's device", fleet.Invalid, "pci/0000:41:00.0 of h1 is already assigned to the VM gpu", taking("pci/0000:41:00.0"))
	if err := taking("usb/046d:c52b")(); err != nil {
		t.Errorf("one that is free: %v", err)
	}
	// An edit that does not change the device list is not checked against the host's devices.
	to := editedSpec(vm, func(v *fleet.VMSpec) { v.HostDevices = []fleet.VMHostDevice{{Device: "pci/0000:41:00.0"}}; v.CPUs = 2 })
	if got, _, err := s.UpdateVM(t.Context(), chief, vm.ID, to); err != nil || got.Spec.HostDevices[0].HostID != s.h1 {
		t.Errorf("an edit of the vCPUs: %+v, %v", got.Spec.HostDevices, err)
	}
}

// A physical disk that two hosts report under the same name is one disk, which belongs to one VM. A VM with a physical
// disk cannot leave its host or have snapshots.
func TestPhysicalDiskIsExclusive(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,devices}', '[{"device":"blk/wwn-0x5000"},{"device":"blk/wwn-0x6000"}]') WHERE id = $1`, s.h2)
	chief := s.addUser("ada", fleet.RoleAdmin)
	order := control.CreateVM{ProjectID: s.red, Name: "store", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, HostDevices: []fleet.VMHostDevice{{Device: "blk/wwn-0x6000"}}}}
	create := func(a fleet.Actor, host fleet.HostID, device string) func() error {
		in := order
		in.HostID, in.Spec.HostDevices = host, []fleet.VMHostDevice{{Device: device}}
		return func() error { _, err := s.CreateVM(t.Context(), a, in); return err }
	}
	s.wantRefused("a tenant's", fleet.Invalid, "Only those who may change infrastructure", create(s.member, s.h1, "blk/wwn-0x5000"))
	vm, err := s.CreateVM(t.Context(), chief, order)
	if err != nil || vm.HostID != s.h2 || vm.Spec.HostDevices[0].HostID != s.h2 {
		t.Fatalf("the VM is not placed on the host with its disk: %+v, %v", vm.Spec.HostDevices, err)
	}
	order.Name = "second"
	if err := create(chief, s.h1, "blk/wwn-0x5000")(); err != nil {
		t.Fatal(err)
	}
	order.Name = "third"
	s.wantRefused("the same disk by another host", fleet.Invalid, "is already assigned to the VM second", create(chief, s.h2, "blk/wwn-0x5000"))
	vm.Status, vm.Phase = &fleet.VMStatus{Power: fleet.Stopped}, fleet.PhaseStopped
	vm.Spec.Disks = []fleet.Disk{{PoolID: s.nfs, Volume: "a.qcow2"}}
	if ok, why := vm.AllowsNewSnapshot(nil); ok || !strings.Contains(why, "the physical disk blk/wwn-0x6000") {
		t.Errorf("a snapshot: %t, %s", ok, why)
	}
}

// A pool cannot be released while a VM's drive contains a volume of the pool. A drive with a missing volume is refused
// at its field.
func TestPoolReleaseRefusedWhileMediumInserted(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	order := control.CreateVM{ProjectID: s.red, Name: "win", HostID: s.h1, Spec: fleet.VMSpec{
		CPUs: 1, MemoryMiB: 256, Drives: []fleet.VMDrive{{Slot: "cdrom2", Medium: &fleet.Volref{PoolID: s.local, Volume: "cd.iso"}}},
	}}
	if _, err := s.CreateVM(t.Context(), s.member, order); err != nil {
		t.Fatal(err)
	}
	chief := s.addUser("ada", fleet.RoleAdmin)
	s.wantRefused("release the pool of a medium", fleet.Conflict, "win", func() error {
		_, err := s.Release(t.Context(), chief, fleet.Subject("pool:"+string(s.local)), s.h1)
		return err
	})
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmGaps}', '[{"field":"devices.watchdog","value":"itco","why":"It takes libvirt 9.1."}]')`)
	order.Name, order.Spec.Devices.Watchdog = "guarded", "itco"
	s.wantRefused("an unsupported watchdog", fleet.Invalid, "It takes libvirt 9.1", func() error { _, err := s.CreateVM(t.Context(), chief, order); return err })
	order.Spec.Devices.Watchdog = "i6300esb"
	if _, err := s.CreateVM(t.Context(), s.member, order); err != nil {
		t.Errorf("with the other watchdog: %v", err)
	}
}

// A value of a disk field that the host does not support is refused for new VMs and for edits. An edit does not check
// values that the disk has already. The machine type of a VM cannot change.
func TestDiskFieldValueNeedsHostSupport(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmGaps}', '[{"field":"disks.bus","value":"nvme","why":"It takes libvirt 11.5."},{"field":"boot.machine","value":"pc","why":"QEMU has no such machine here."}]') WHERE id = $1`, s.h1)
	chief := s.addUser("ada", fleet.RoleAdmin)
	make := func(a fleet.Actor, name string, host fleet.HostID, change func(*fleet.VMSpec)) error {
		spec := fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1 << 30, Bus: "scsi"}}}
		change(&spec)
		_, err := s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, Name: name, HostID: host, Spec: spec})
		return err
	}
	nvme := func(v *fleet.VMSpec) { v.Disks[0].Bus, v.Disks[0].Serial = "nvme", "N1" }
	old := func(v *fleet.VMSpec) { v.Boot.Machine, v.Disks[0].Bus = fleet.MachinePC, "ide" }
	s.wantRefused("NVMe where libvirt has none", fleet.Invalid, "h1 does not support this bus: nvme. It takes libvirt 11.5.", func() error { return make(chief, "fast", s.h1, nvme) })
	s.wantRefused("a machine type that QEMU lacks", fleet.Invalid, "h1 does not support this machine: pc. QEMU has no such machine here.", func() error { return make(chief, "old", s.h1, old) })
	if err := make(chief, "usual", s.h1, func(*fleet.VMSpec) {}); err != nil {
		t.Errorf("another bus: %v", err)
	}
	vm := s.createVM("edited", fleet.Stopped)
	s.execSQL(`UPDATE vms SET host_id = $2, spec = jsonb_set(spec, '{disks}', jsonb_build_array(jsonb_build_object('poolId', $3::text, 'volume', 'a.qcow2', 'sizeBytes', 1073741824), jsonb_build_object('poolId', $3::text, 'volume', 'b.qcow2', 'sizeBytes', 1073741824, 'bus', 'nvme', 'serial', 'N2'))) WHERE id = $1`, vm.ID, s.h1, s.nfs)
	vm, err := s.GetVM(t.Context(), chief, vm.ID)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(change func(*fleet.VMSpec)) func() error {
		return func() error {
			_, _, err := s.UpdateVM(t.Context(), chief, vm.ID, editedSpec(vm, func(v *fleet.VMSpec) { v.Disks = slices.Clone(v.Disks); change(v) }))
			return err
		}
	}
	s.wantRefused("an edit to NVMe", fleet.Invalid, "It takes libvirt 11.5", edit(nvme))
	s.wantRefused("another machine", fleet.Invalid, "the guest would find every device at another address", edit(func(v *fleet.VMSpec) { v.Boot.Machine, v.Firmware, v.Disks = fleet.MachinePC, fleet.BIOS, v.Disks[:1] }))
	if err := edit(func(v *fleet.VMSpec) { v.Disks[0].Bus = "sata" })(); err != nil {
		t.Errorf("an edit of the other disk: %v", err)
	}
}

// A host that reports null instead of a list does not break placement on other hosts.
func TestNullsInHostReportDoNotBreakPlacement(t *testing.T) {
	s := newProjectFixture(t)
	for _, list := range []string{"firmwares", "vmFields", "vmGaps", "devices"} {
		s.execSQL(`UPDATE hosts SET status = jsonb_set(status, ARRAY['inventory', $2], 'null') WHERE id = $1`, s.h2, list)
	}
	vm, err := s.CreateVM(t.Context(), s.addUser("ada", fleet.RoleAdmin), control.CreateVM{ProjectID: s.red, Name: "web", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256}})
	if err != nil || vm.HostID != s.h1 {
		t.Errorf("on %s: %v", vm.HostID, err)
	}
}
