package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Input is how a form asks for a field. What a form asks for otherwise has none.
type Input struct {
	Section Section
	Label   string
	Help    string
	Options []Option // of a choice; of a text they are proposals
	Kind    InputKind
	Unit    string // of a number
	One     bool   // no number means 1
}

// InputKind is what a field is typed as.
type InputKind int

// The kinds of them.
const (
	InputNumber InputKind = iota
	InputFlag
	InputChoice
	InputText // proposals, and what else is typed
)

// Option is a value that a field can have, and its words.
type Option struct{ Value, Text string }

// Section is a heading of a VM's form.
type Section string

// The sections, in the order in which a form has them.
const (
	SectionCPU      Section = "CPU"
	SectionMemory   Section = "Memory"
	SectionBoot     Section = "Boot"
	SectionDisplay  Section = "Display and input"
	SectionSecurity Section = "Security"
	SectionDevices  Section = "Other devices"
)

// VMSections lists them.
var VMSections = []Section{SectionCPU, SectionMemory, SectionBoot, SectionDisplay, SectionSecurity, SectionDevices}

// What people may choose among. The empty value is the default.
var (
	CPUModels = []Option{
		{"", "Best of the host"}, {"host-passthrough", "Host's own (passthrough)"}, {"host-model", "Like the host's"}, {"maximum", "All that can be emulated"},
	}
	VideoModels = []Option{{"", "VGA"}, {"virtio", "Virtio"}, {"qxl", "QXL"}, {"bochs", "Bochs (UEFI)"}, {"none", "None"}}
	Keyboards   = []Option{
		{"", "As pressed"},
		{"en-us", "English (US)"},
		{"en-gb", "English (UK)"},
		{"de", "German"},
		{"de-ch", "German (Switzerland)"},
		{"fr", "French"},
		{"fr-be", "French (Belgium)"},
		{"fr-ca", "French (Canada)"},
		{"fr-ch", "French (Switzerland)"},
		{"es", "Spanish"},
		{"it", "Italian"},
		{"pt", "Portuguese"},
		{"pt-br", "Portuguese (Brazil)"},
		{"nl", "Dutch"},
		{"da", "Danish"},
		{"no", "Norwegian"},
		{"sv", "Swedish"},
		{"fi", "Finnish"},
		{"pl", "Polish"},
		{"hu", "Hungarian"},
		{"hr", "Croatian"},
		{"sl", "Slovenian"},
		{"lt", "Lithuanian"},
		{"lv", "Latvian"},
		{"et", "Estonian"},
		{"is", "Icelandic"},
		{"ru", "Russian"},
		{"tr", "Turkish"},
		{"ja", "Japanese"},
		{"ar", "Arabic"},
	}
	Pointers        = []Option{{"", "Tablet (follows the pointer)"}, {"mouse", "Mouse"}}
	SoundCards      = []Option{{"", "None"}, {"ich9", "Intel HD Audio (ICH9)"}, {"ich6", "Intel HD Audio (ICH6)"}, {"ac97", "AC'97"}}
	Watchdogs       = []Option{{"", "None"}, {"i6300esb", "Intel 6300ESB"}}
	WatchdogActions = []Option{
		{"", "Reset"}, {"poweroff", "Power off"}, {"shutdown", "Shut down"}, {"pause", "Pause"}, {"inject-nmi", "Non-maskable interrupt"}, {"none", "Nothing"},
	}
)

// Bounds of them.
const (
	MaxHeads   = 16
	MaxRNGRate = 1 << 30
)

var cpuModelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// partFields are the fields that stand in one place of a definition each, by section.
var partFields = []VMField{
	text("cpu.model", "CPU model", func(s *VMSpec) *string { return &s.CPU.Model }, Input{
		Section: SectionCPU, Label: "Model", Options: CPUModels,
		Help: "Guests that move between hosts need one that all of them have: a name such as Skylake-Server.",
	}, cpuModelForm, "Give the name of a CPU model, such as Skylake-Server."),
	number("cpu.sockets", "sockets", "socket", func(s *VMSpec) *int { return &s.CPU.Sockets }, Input{Section: SectionCPU, Label: "Sockets", One: true}, 1, MaxCPUs),
	number("cpu.cores", "cores a socket", "core", func(s *VMSpec) *int { return &s.CPU.Cores }, Input{Section: SectionCPU, Label: "Cores a socket", One: true}, 1, MaxCPUs),
	number("cpu.threads", "threads a core", "thread", func(s *VMSpec) *int { return &s.CPU.Threads }, Input{
		Section: SectionCPU, Label: "Threads a core", One: true, Help: "Sockets × cores × threads is the number of vCPUs. Empty: a socket each.",
	}, 1, MaxCPUs),

	reserved("it takes pages that other VMs then lack", number("memory.hugePageKiB", "huge pages", "KiB", func(s *VMSpec) *int { return &s.Memory.HugePageKiB }, Input{
		Section: SectionMemory, Label: "Huge pages", Unit: "KiB", Help: "2048 or 1048576 on most hosts, which must have as many of them free as the VM has memory.",
	}, 4, 1<<24)),
	reserved("it takes memory of the host that nothing else can have", flag("memory.locked", "locked memory", func(s *VMSpec) *bool { return &s.Memory.Locked }, Input{
		Section: SectionMemory, Label: "Locked", Help: "The host never swaps it out.",
	})),
	flag("memory.shared", "shared memory", func(s *VMSpec) *bool { return &s.Memory.Shared }, Input{
		Section: SectionMemory, Label: "Shared", Help: "With other programs of the host, as virtiofs needs it.",
	}),

	flag("boot.menu", "boot menu", func(s *VMSpec) *bool { return &s.Boot.Menu }, Input{
		Section: SectionBoot, Label: "Boot menu", Help: "The firmware waits some seconds for a key, and offers what it can boot from.",
	}),

	choice("display.video", "graphics card", func(s *VMSpec) *string { return &s.Display.Video }, Input{Section: SectionDisplay, Label: "Graphics card", Options: VideoModels}),
	number("display.heads", "screens", "screen", func(s *VMSpec) *int { return &s.Display.Heads }, Input{
		Section: SectionDisplay, Label: "Screens", One: true, Help: "Virtio and QXL can have several.",
	}, 1, MaxHeads),
	choice("display.keyboard", "keyboard", func(s *VMSpec) *string { return &s.Display.Keyboard }, Input{Section: SectionDisplay, Label: "Keyboard", Options: Keyboards}),
	choice("display.pointer", "pointer", func(s *VMSpec) *string { return &s.Display.Pointer }, Input{Section: SectionDisplay, Label: "Pointer", Options: Pointers}),
	choice("display.sound", "sound card", func(s *VMSpec) *string { return &s.Display.Sound }, Input{Section: SectionDisplay, Label: "Sound card", Options: SoundCards}),

	flag("security.tpm", "TPM", func(s *VMSpec) *bool { return &s.Security.TPM }, Input{
		Section: SectionSecurity, Label: "TPM 2.0", Help: "Its state lies on the host, until the VM is deleted: a VM with one does not go to another host.",
	}),

	choice("devices.watchdog", "watchdog", func(s *VMSpec) *string { return &s.Devices.Watchdog }, Input{Section: SectionDevices, Label: "Watchdog", Options: Watchdogs}),
	choice("devices.watchdogAction", "watchdog's action", func(s *VMSpec) *string { return &s.Devices.WatchdogAction }, Input{
		Section: SectionDevices, Label: "When the guest hangs", Options: WatchdogActions,
	}),
	number("devices.rngRate", "random numbers", "byte/s", func(s *VMSpec) *int { return &s.Devices.RNGRate }, Input{
		Section: SectionDevices, Label: "Random numbers", Unit: "bytes/s", Help: "Empty: as many as the guest asks for.",
	}, 1, MaxRNGRate),
	reserved("it opens a way from the guest to programs of the host", flag("devices.vsock", "vsock", func(s *VMSpec) *bool { return &s.Devices.VSOCK }, Input{
		Section: SectionDevices, Label: "Vsock", Help: "A socket between the guest and its host, without a network.",
	})),

	firstBoot(),
}

// Parts are the fields that stand in one place of a definition each. They came later than the others: an older agent knows not all of them.
func Parts() []VMField { return partFields }

// PartNames are the names of all that there are.
func PartNames() []string {
	var out []string
	for _, f := range partFields {
		out = append(out, f.Name)
	}
	return out
}

// checkParts notes what is wrong with them, alone and together.
func (s VMSpec) checkParts(c *Checks, prefix string) {
	for _, f := range partFields {
		f.check(c, prefix+"."+f.Name, s)
	}
	within := func(n int) bool { return n >= 0 && n <= MaxCPUs }
	if t := s.CPU; t != (VMCPU{Model: t.Model}) && within(t.Sockets) && within(t.Cores) && within(t.Threads) {
		if n := max(t.Sockets, 1) * max(t.Cores, 1) * max(t.Threads, 1); n != s.CPUs {
			c.Add(prefix+".cpu.sockets", "Sockets × cores × threads is %d, and the VM has %s.", n, count(s.CPUs, "vCPU"))
		}
	}
	if n := s.Memory.HugePageKiB; n > 0 && n&(n-1) != 0 {
		c.Add(prefix+".memory.hugePageKiB", "The size of a page is a power of 2: 2048 or 1048576 on most hosts.")
	}
	if d := s.Display; d.Heads > 1 && d.Video != "virtio" && d.Video != "qxl" {
		c.Add(prefix+".display.heads", "Only a virtio or QXL graphics card has several screens.")
	}
	if d := s.Devices; d.WatchdogAction != "" && d.Watchdog == "" {
		c.Add(prefix+".devices.watchdogAction", "Choose a watchdog, or leave its action.")
	}
}

// asked is a field that a form asks for; a guest that is on gets it at its next start.
func asked[T comparable](name, noun string, at func(*VMSpec) *T, words func(T) string, in Input, equal func(a, b T) bool, check func(c *Checks, field string, v T)) VMField {
	f := valueAs(name, noun, NextBoot, at, words, func(a, b T) string { return words(a) + " → " + words(b) }, equal)
	f.Input = in
	f.Default = func(s VMSpec) bool { var zero T; return *at(&s) == zero }
	f.check = func(c *Checks, field string, s VMSpec) {
		if !f.Default(s) {
			check(c, field, *at(&s))
		}
	}
	return f
}

// reserved is a field that only who runs the hosts may choose; who may change the VM may put it back to the usual.
func reserved(why string, f VMField) VMField {
	f.Reserved = why
	return f
}

func equal[T comparable](a, b T) bool { return a == b }

// number is one that is above zero; zero: the default.
func number(name, noun, unit string, at func(*VMSpec) *int, in Input, least, most int) VMField {
	return asked(name, noun, at, func(n int) string {
		switch {
		case n == 0:
			return "default"
		case in.Unit != "":
			return fmt.Sprint(n, " ", in.Unit)
		}
		return count(n, unit)
	}, in, func(a, b int) bool { return a == b || in.One && max(a, 1) == max(b, 1) }, func(c *Checks, field string, n int) {
		if n < least || n > most {
			c.Add(field, "Give a whole number from %d to %d, or nothing.", least, most)
		}
	})
}

func flag(name, noun string, at func(*VMSpec) *bool, in Input) VMField {
	in.Kind = InputFlag
	return asked(name, noun, at, func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}, in, equal, func(*Checks, string, bool) {})
}

func choice(name, noun string, at func(*VMSpec) *string, in Input) VMField {
	in.Kind = InputChoice
	return asked(name, noun, at, in.words, in, equal, func(c *Checks, field, v string) {
		if !slices.ContainsFunc(in.Options, func(o Option) bool { return o.Value == v }) {
			var all []string
			for _, o := range in.Options[1:] {
				all = append(all, o.Value)
			}
			c.Add(field, "Choose one of %s, or nothing.", strings.Join(all, ", "))
		}
	})
}

// text is a choice that takes other words of that form, too.
func text(name, noun string, at func(*VMSpec) *string, in Input, form *regexp.Regexp, wrong string) VMField {
	in.Kind = InputText
	return asked(name, noun, at, in.words, in, equal, func(c *Checks, field, v string) {
		if !form.MatchString(v) {
			c.Add(field, "%s", wrong)
		}
	})
}

// Says is a value in words: one of the options', or itself with its unit.
func (in Input) Says(v string) string {
	switch {
	case in.Kind == InputFlag:
		return "on"
	case in.Unit != "":
		return v + " " + in.Unit
	}
	return in.words(v)
}

func (in Input) words(v string) string {
	for _, o := range in.Options {
		if o.Value == v {
			return o.Text
		}
	}
	return v
}
