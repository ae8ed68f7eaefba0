package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// Each device that a machine type lacks is refused at its field, with a hint what to choose.
func TestMachineTypeRefusesUnsupportedDevices(t *testing.T) {
	t.Parallel()
	ide := func(n int) func(*fleet.VMSpec) {
		return func(s *fleet.VMSpec) {
			s.Disks = nil
			for range n {
				s.Disks = append(s.Disks, fleet.Disk{PoolID: "p", SizeBytes: 1 << 30, Bus: "ide"})
			}
		}
	}
	drives := func(s *fleet.VMSpec) {
		s.Drives = []fleet.VMDrive{{Slot: "cdrom2"}, {Slot: "cdrom3"}, {Slot: "floppy1"}, {Slot: "cdrom4"}}
	}
	for name, c := range map[string]struct {
		change func(*fleet.VMSpec)
		field  string
		says   string
	}{
		"no changes":                     {func(*fleet.VMSpec) {}, "", ""},
		"three IDE disks":                {ide(3), "", ""},
		"four drives":                    {drives, "", ""},
		"other buses":                    {func(s *fleet.VMSpec) { s.Disks[0].Bus = "sata" }, "", ""},
		"an explicit default":            {func(s *fleet.VMSpec) { s.Boot.Machine = "q35" }, "spec.boot.machine", "Choose one of pc"},
		"a machine with a version":       {func(s *fleet.VMSpec) { s.Boot.Machine = "pc-i440fx-7.2" }, "spec.boot.machine", "Choose one of pc"},
		"a machine in uppercase":         {func(s *fleet.VMSpec) { s.Boot.Machine = "PC" }, "spec.boot.machine", "Choose one of pc"},
		"a machine with an option":       {func(s *fleet.VMSpec) { s.Boot.Machine = "pc,accel=tcg" }, "spec.boot.machine", "Choose one of pc"},
		"a machine with markup":          {func(s *fleet.VMSpec) { s.Boot.Machine = "pc'/>" }, "spec.boot.machine", "Choose one of pc"},
		"UEFI":                           {func(s *fleet.VMSpec) { s.Firmware = fleet.UEFI }, "spec.firmware", "A pc machine needs BIOS."},
		"secure boot":                    {func(s *fleet.VMSpec) { s.Firmware, s.Security.SecureBoot = fleet.UEFI, true }, "spec.firmware spec.security.secureBoot", "q35"},
		"encrypted memory":               {func(s *fleet.VMSpec) { s.Security.Confidential = "sev" }, "spec.security.confidential spec.security.confidential", "UEFI"},
		"a watchdog of another chipset":  {func(s *fleet.VMSpec) { s.Devices.Watchdog = "itco" }, "spec.devices.watchdog", "another watchdog"},
		"a watchdog at PCI":              {func(s *fleet.VMSpec) { s.Devices.Watchdog = "i6300esb" }, "", ""},
		"four IDE disks":                 {ide(4), "spec.disks[3].bus", "supports 4 IDE devices"},
		"six IDE disks":                  {ide(6), "spec.disks[3].bus spec.disks[4].bus spec.disks[5].bus", "such as SATA"},
		"an IDE disk beside four drives": {func(s *fleet.VMSpec) { drives(s); s.Disks[0].Bus = "ide" }, "spec.disks[0].bus", "IDE devices, including the CD-ROM drives."},
		"an NVMe disk":                   {func(s *fleet.VMSpec) { s.Disks[0].Bus, s.Disks[0].Serial = "nvme", "N1" }, "spec.disks[0].bus", "PCI Express"},
		"IDE that is read-only":          {func(s *fleet.VMSpec) { s.Disks[0].Bus, s.Disks[0].ReadOnly = "ide", true }, "spec.disks[0].readOnly", "An IDE disk"},
		"IDE on q35":                     {func(s *fleet.VMSpec) { s.Boot.Machine, s.Disks[0].Bus = "", "ide" }, "spec.disks[0].bus", "Only the machine pc"},
		"NVMe on q35":                    {func(s *fleet.VMSpec) { s.Boot.Machine, s.Disks[0].Bus, s.Disks[0].Serial = "", "nvme", "N1" }, "", ""},
		"NVMe without a serial":          {func(s *fleet.VMSpec) { s.Boot.Machine, s.Disks[0].Bus = "", "nvme" }, "spec.disks[0].serial", "serial number"},
		"a bus in uppercase":             {func(s *fleet.VMSpec) { s.Disks[0].Bus = "IDE" }, "spec.disks[0].bus", "ide, nvme"},
	} {
		spec := fleet.VMSpec{
			Power: fleet.Running, CPUs: 1, MemoryMiB: 512, Firmware: fleet.BIOS, Boot: fleet.VMBoot{Machine: fleet.MachinePC},
			Disks: []fleet.Disk{{PoolID: "p", SizeBytes: 1 << 30}},
		}
		c.change(&spec)
		var checks fleet.Checks
		spec.Check(&checks, "spec")
		var fields, messages []string
		if e, ok := errors.AsType[*fleet.Error](checks.Err()); ok {
			for _, f := range e.Fields {
				fields, messages = append(fields, f.Field), append(messages, f.Message)
			}
		}
		if got := strings.Join(fields, " "); got != c.field || !strings.Contains(strings.Join(messages, " "), c.says) {
			t.Errorf("%s: refused at %q with %q, want %q and %q", name, got, messages, c.field, c.says)
		}
	}
}

// A gap can concern a single value of a device's field, so UsedFields lists each value once, at the first device that
// has it.
func TestUsedFieldsListsEachDeviceFieldValueOnce(t *testing.T) {
	t.Parallel()
	spec := fleet.VMSpec{
		Disks: []fleet.Disk{{}, {Bus: "scsi", Serial: "A"}, {Bus: "nvme", Serial: "B"}, {Bus: "scsi"}},
		NICs:  []fleet.NIC{{Model: "e1000e", Queues: 2}},
	}
	want := []fleet.UsedField{
		{Name: "disks.bus", At: "disks[1].bus", Type: "bus", Value: "scsi"},
		{Name: "disks.bus", At: "disks[2].bus", Type: "bus", Value: "nvme"},
		{Name: "disks.serial", At: "disks[1].serial", Type: "serial number"},
		{Name: "nics.model", At: "nics[0].model", Type: "model", Value: "e1000e"},
		{Name: "nics.queues", At: "nics[0].queues", Type: "queues"},
	}
	if got := spec.UsedFields(); !slices.Equal(got, want) {
		t.Errorf("used fields are %+v", got)
	}
}
