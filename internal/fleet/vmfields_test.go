package fleet_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestPartsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*fleet.VMSpec)
		want   []string
	}{
		"none":                      {func(*fleet.VMSpec) {}, nil},
		"a model's name":            {func(s *fleet.VMSpec) { s.CPU.Model = "Skylake-Server-v4" }, nil},
		"a model's option":          {func(s *fleet.VMSpec) { s.CPU.Model = "host-passthrough" }, nil},
		"a model like an option":    {func(s *fleet.VMSpec) { s.CPU.Model = "-cpu" }, []string{"spec.cpu.model"}},
		"a model with markup":       {func(s *fleet.VMSpec) { s.CPU.Model = "a</model>" }, []string{"spec.cpu.model"}},
		"a model in two lines":      {func(s *fleet.VMSpec) { s.CPU.Model = "qemu64\nx" }, []string{"spec.cpu.model"}},
		"a model that is long":      {func(s *fleet.VMSpec) { s.CPU.Model = strings.Repeat("a", 64) }, []string{"spec.cpu.model"}},
		"a topology":                {func(s *fleet.VMSpec) { s.CPU = fleet.VMCPU{Sockets: 2, Cores: 2, Threads: 2} }, nil},
		"cores alone":               {func(s *fleet.VMSpec) { s.CPU.Cores = 8 }, nil},
		"too few cores":             {func(s *fleet.VMSpec) { s.CPU.Cores = 4 }, []string{"spec.cpu.sockets"}},
		"sockets below none":        {func(s *fleet.VMSpec) { s.CPU = fleet.VMCPU{Sockets: -8, Cores: -1} }, []string{"spec.cpu.sockets", "spec.cpu.cores"}},
		"threads beyond all":        {func(s *fleet.VMSpec) { s.CPU.Threads = fleet.MaxCPUs + 1 }, []string{"spec.cpu.threads"}},
		"a product that overflows":  {func(s *fleet.VMSpec) { s.CPU = fleet.VMCPU{Sockets: 1 << 62, Cores: 4, Threads: 2} }, []string{"spec.cpu.sockets"}},
		"huge pages":                {func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 2048 }, nil},
		"pages of a byte":           {func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 1 }, []string{"spec.memory.hugePageKiB"}},
		"pages of 3 MiB":            {func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 3072 }, []string{"spec.memory.hugePageKiB"}},
		"two screens":               {func(s *fleet.VMSpec) { s.Display.Video, s.Display.Heads = "virtio", 2 }, nil},
		"one screen of VGA":         {func(s *fleet.VMSpec) { s.Display.Heads = 1 }, nil},
		"two screens of VGA":        {func(s *fleet.VMSpec) { s.Display.Heads = 2 }, []string{"spec.display.heads"}},
		"too many screens":          {func(s *fleet.VMSpec) { s.Display.Video, s.Display.Heads = "qxl", 17 }, []string{"spec.display.heads"}},
		"an unknown card":           {func(s *fleet.VMSpec) { s.Display.Video = "vmvga" }, []string{"spec.display.video"}},
		"an unknown keyboard":       {func(s *fleet.VMSpec) { s.Display.Keyboard = "../../de" }, []string{"spec.display.keyboard"}},
		"an unknown pointer":        {func(s *fleet.VMSpec) { s.Display.Pointer = "tablet " }, []string{"spec.display.pointer"}},
		"an unknown sound card":     {func(s *fleet.VMSpec) { s.Display.Sound = "sb16" }, []string{"spec.display.sound"}},
		"a watchdog":                {func(s *fleet.VMSpec) { s.Devices.Watchdog, s.Devices.WatchdogAction = "i6300esb", "poweroff" }, nil},
		"an action alone":           {func(s *fleet.VMSpec) { s.Devices.WatchdogAction = "poweroff" }, []string{"spec.devices.watchdogAction"}},
		"an action that dumps":      {func(s *fleet.VMSpec) { s.Devices.Watchdog, s.Devices.WatchdogAction = "i6300esb", "dump" }, []string{"spec.devices.watchdogAction"}},
		"a first boot":              {func(s *fleet.VMSpec) { s.FirstBoot = fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1} }, nil},
		"an unknown first boot":     {func(s *fleet.VMSpec) { s.FirstBoot = fleet.VMFirstBoot{Kind: "kickstart", Number: 1} }, []string{"spec.firstBoot"}},
		"a first boot never given":  {func(s *fleet.VMSpec) { s.FirstBoot.Kind = fleet.CloudInit }, []string{"spec.firstBoot"}},
		"a number of no first boot": {func(s *fleet.VMSpec) { s.FirstBoot.Number = 3 }, []string{"spec.firstBoot"}},
		"a rate below none":         {func(s *fleet.VMSpec) { s.Devices.RNGRate = -1 }, []string{"spec.devices.rngRate"}},
		"a rate beyond all":         {func(s *fleet.VMSpec) { s.Devices.RNGRate = fleet.MaxRNGRate + 1 }, []string{"spec.devices.rngRate"}},
	} {
		spec := fleet.VMSpec{Power: fleet.Running, CPUs: 8, MemoryMiB: 512, Firmware: fleet.UEFI}
		c.change(&spec)
		if got := faults(func(checks *fleet.Checks) { spec.Check(checks, "spec") }); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

// What a form, a drift and an edit say of a part is its value; what a host sends as one is read as that alone.
func TestPartsAreValues(t *testing.T) {
	t.Parallel()
	full := fleet.VMSpec{
		CPU:      fleet.VMCPU{Model: "host-model", Sockets: 2, Cores: 3, Threads: 4},
		Memory:   fleet.VMMemory{Shared: true, Locked: true, HugePageKiB: 2048},
		Boot:     fleet.VMBoot{Menu: true},
		Display:  fleet.VMDisplay{Video: "virtio", Heads: 2, Keyboard: "de", Pointer: "mouse", Sound: "ich9"},
		Security: fleet.VMSecurity{TPM: true},
		Devices:  fleet.VMDevices{Watchdog: "i6300esb", WatchdogAction: "pause", RNGRate: 1024, VSOCK: true},

		FirstBoot: fleet.VMFirstBoot{Kind: fleet.Sysprep, Number: 2},
	}
	var taken fleet.VMSpec
	for _, f := range fleet.Parts() {
		if f.Default(full) || !f.Default(fleet.VMSpec{}) {
			t.Errorf("%s: what is set is the default, or what is not is none", f.Name)
		}
		if f.Same(full, fleet.VMSpec{}) || f.Words(full) == f.Words(fleet.VMSpec{}) {
			t.Errorf("%s: set or not is the same, in words %q and %q", f.Name, f.Words(full), f.Words(fleet.VMSpec{}))
		}
		if alone := f.Name == "firstBoot"; !alone && f.Input.Label == "" || alone != !slices.Contains(fleet.VMSections, f.Input.Section) {
			t.Errorf("%s: no form can ask for it: %+v", f.Name, f.Input)
		}
		text, err := json.Marshal(f.Value(full))
		if err != nil || f.Take(&taken, text) != nil || f.Take(&taken, []byte(`{"x":1}`)) == nil {
			t.Errorf("%s: its value %s is not taken, or another is", f.Name, text)
		}
		c := full.Diff(fleet.VMSpec{}, true)
		if !slices.ContainsFunc(c, func(c fleet.Change) bool { return c.Field == "spec."+f.Name && c.When == fleet.NextBoot }) {
			t.Errorf("%s: an edit of it is %+v", f.Name, c)
		}
	}
	if got, want := taken.Diff(full, false), 0; len(got) != want {
		t.Errorf("what was taken differs in %+v", got)
	}
}
