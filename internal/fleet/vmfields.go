package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Choices of the fields below. The empty value is the default.
var (
	CPUModels = []Option{
		{"", "Best of the host"},
		{"host-passthrough", "Host's own (passthrough)"},
		{"host-model", "Like the host's"},
		{"maximum", "All that can be emulated"},
		{BaselineModel, "Newest that all hosts have now"},
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
	SoundModels     = []Option{{"", "None"}, {"ich9", "Intel HD Audio (ICH9)"}, {"ich6", "Intel HD Audio (ICH6)"}, {"ac97", "AC'97"}}
	Watchdogs       = []Option{{"", "None"}, {"i6300esb", "Intel 6300ESB"}, {"itco", "Intel iTCO (of the chipset)"}}
	Balloons        = []Option{{"", "On"}, {"reporting", "On, gives back what the guest does not use"}, {"none", "None"}}
	GuestAgents     = []Option{{"", "On (virtio-serial)"}, {AgentOnVSOCK, "On (vsock)"}, {"none", "None"}}
	Autostarts      = []Option{{"", "Stay off"}, {"last", "Start, if it was on"}, {"on", "Start"}}
	HAPriorities    = []Option{{"", "Normal"}, {"low", "Low"}, {"high", "High"}, {"never", "Never"}}
	Restarts        = []Option{{"", "Stay off"}, {"onFailure", "Start again, if it crashed"}, {"always", "Start again"}}
	WatchdogActions = []Option{
		{"", "Reset"}, {"poweroff", "Power off"}, {"shutdown", "Shut down"}, {"pause", "Pause"}, {"inject-nmi", "Non-maskable interrupt"}, {"none", "Nothing"},
	}
)

// Bounds of the fields below.
const (
	MaxHeads      = 16
	MaxRNGRate    = 1 << 30
	MaxBootOrder  = 64
	MaxStartOrder = 1000
	MaxStartDelay = 3600 // seconds
	MaxSerials    = 3    // beside the console's serial port
	MaxUSBPorts   = 4
	MaxMoveLimit  = 1 << 20
	MaxDowntimeMs = 10000
)

// AgentOnVSOCK is the GuestAgents choice for a guest agent that listens on the guest's vsock, at port AgentPort.
const (
	AgentOnVSOCK = "vsock"
	AgentPort    = 1234
)

var (
	cpuFeaturesForm = regexp.MustCompile(`^[+-][a-z0-9][a-z0-9._-]{0,31}( [+-][a-z0-9][a-z0-9._-]{0,31}){0,31}$`)
	cmdlineForm     = regexp.MustCompile(`^[ -~]{1,1000}$`)
	cpuSetForm      = regexp.MustCompile(`^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?){0,63}$`)
)

var cpuModelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// defaultShares is libvirt's default CPU weight of a domain.
const defaultShares = 1024

// optionalFields are the fields that map to a single place in a domain's definition, by form section.
var optionalFields = []Field[VMSpec]{
	text("cpu.model", "CPU model", func(s *VMSpec) *string { return &s.CPU.Model }, Input{
		Section: SectionCPU, Label: "Model", Options: CPUModels,
		Help: "Guests that move between hosts need one that all of them have: a name such as Skylake-Server.",
	}, cpuModelForm, "Give the name of a CPU model, such as Skylake-Server."),
	number("cpu.sockets", "sockets", "socket", func(s *VMSpec) *int { return &s.CPU.Sockets }, Input{Section: SectionCPU, Label: "Sockets", Usual: 1}, 1, MaxCPUs),
	number("cpu.cores", "cores a socket", "core", func(s *VMSpec) *int { return &s.CPU.Cores }, Input{Section: SectionCPU, Label: "Cores a socket", Usual: 1}, 1, MaxCPUs),
	number("cpu.threads", "threads a core", "thread", func(s *VMSpec) *int { return &s.CPU.Threads }, Input{
		Section: SectionCPU, Label: "Threads a core", Usual: 1, Help: "Sockets × cores × threads is the most vCPUs that the VM can have. Empty: a socket each.",
	}, 1, MaxCPUs),
	number("cpu.max", "most vCPUs", "vCPU", func(s *VMSpec) *int { return &s.CPU.Max }, Input{
		Section: SectionCPU, Label: "Maximum vCPUs", Help: "Up to as many can be added while the guest runs. Empty: none.",
	}, 1, MaxCPUs),
	text("cpu.features", "CPU features", func(s *VMSpec) *string { return &s.CPU.Features }, Input{
		Section: SectionCPU, Label: "Features", Help: "Those that the guest has besides the model's, and those that it has not: +aes -vmx.",
	}, cpuFeaturesForm, "Write each feature with + or -, with blanks between them: +aes -vmx. 32 at most."),
	reservedAbove(defaultShares, "more than 1024 takes processor time from other VMs", func(s VMSpec) int { return s.CPU.Shares },
		effectiveNow(number("cpu.shares", "CPU shares", "", func(s *VMSpec) *int { return &s.CPU.Shares }, Input{
			Section: SectionCPU, Label: "Shares", Usual: defaultShares, Help: "Of the host's processors where there are too few, beside the 1024 of others.",
		}, 2, 262144))),
	effectiveNow(number("cpu.limit", "CPU limit", "%", func(s *VMSpec) *int { return &s.CPU.Limit }, Input{
		Section: SectionCPU, Label: "Limit", Unit: "%", Help: "Of a processor, for each vCPU.",
	}, 1, 100)),
	reserved("no other VM gets this part of the host's processors", portalOnly(number("cpu.reserved", "CPU reservation", "%", func(s *VMSpec) *int { return &s.CPU.Reserved }, Input{
		Section: SectionCPU, Label: "Reserved", Unit: "%", Help: "Of a processor, for each vCPU, running or not. A host's reservations are at most all of its processors.",
	}, 1, 100))),
	reserved("others may have these processors", text("cpu.pinned", "CPU pinning", func(s *VMSpec) *string { return &s.CPU.Pinned }, Input{
		Section: SectionCPU, Label: "Pinned to", Help: "The host's processors that its vCPUs run on: 0-3,6.",
	}, cpuSetForm, "Give numbers and ranges of them: 0-3,6.")),

	reserved("it takes pages that other VMs then lack", number("memory.hugePageKiB", "huge pages", "KiB", func(s *VMSpec) *int { return &s.Memory.HugePageKiB }, Input{
		Section: SectionMemory, Label: "Huge pages", Unit: "KiB", Help: "2048 or 1048576 on most hosts, which must have as many of them free as the VM has memory.",
	}, 4, 1<<24)),
	reserved("it takes memory of the host that nothing else can have", flag("memory.locked", "locked memory", func(s *VMSpec) *bool { return &s.Memory.Locked }, Input{
		Section: SectionMemory, Label: "Locked", Help: "The host never swaps it out.",
	})),
	flag("memory.shared", "shared memory", func(s *VMSpec) *bool { return &s.Memory.Shared }, Input{
		Section: SectionMemory, Label: "Shared", Help: "With other programs of the host, as virtiofs needs it.",
	}),
	number("memory.maxMiB", "most memory", "MiB", func(s *VMSpec) *int { return &s.Memory.MaxMiB }, Input{
		Section: SectionMemory, Label: "Maximum memory", Unit: "MiB", Help: "Up to as much can be added while the guest runs, in steps of 128 MiB. Empty: none.",
	}, MinMemoryMiB, MaxMemoryMiB),
	effectiveNow(number("memory.balloonMiB", "memory that it may use", "MiB", func(s *VMSpec) *int { return &s.Memory.BalloonMiB }, Input{
		Section: SectionMemory, Label: "Balloon target", Unit: "MiB", Help: "The guest's balloon gives the rest back to the host, as far as the guest lets it. Empty: all of it.",
	}, MinMemoryMiB, MaxMemoryMiB)),
	effectiveNow(number("memory.minMiB", "memory floor", "MiB", func(s *VMSpec) *int { return &s.Memory.MinMiB }, Input{
		Section: SectionMemory, Label: "Minimum memory", Unit: "MiB", Help: "Where its host is short of memory, the guest's balloon gives back down to this much, and gets it again afterwards. Empty: it gives nothing.",
	}, MinMemoryMiB, MaxMemoryMiB)),
	reserved("others may have the memory of these nodes", text("memory.nodes", "NUMA nodes", func(s *VMSpec) *string { return &s.Memory.Nodes }, Input{
		Section: SectionMemory, Label: "NUMA nodes", Help: "The host's nodes that the memory comes from: 0-1.",
	}, cpuSetForm, "Give numbers and ranges of them: 0-1.")),

	fixed("its guest would find every device at another place, and many do not start then. Make a new VM", choice("boot.machine", "machine", func(s *VMSpec) *string { return &s.Boot.Machine }, Input{
		Section: SectionBoot, Label: "Machine", Options: Machines, Named: "q35", Help: "Chosen when the VM is made, and never afterwards. The old one is for guests that know no newer: it has BIOS, and IDE disks.",
	})),
	flag("boot.menu", "boot menu", func(s *VMSpec) *bool { return &s.Boot.Menu }, Input{
		Section: SectionBoot, Label: "Boot menu", Help: "The firmware waits some seconds for a key, and offers what it can boot from.",
	}),
	number("boot.cdrom", "CD-ROM's boot order", "", func(s *VMSpec) *int { return &s.Boot.CDROM }, Input{
		Section: SectionBoot, Label: "CD-ROM's place", Help: "Among the disks and NICs that have a boot order. Without any: disks, then the CD-ROM, then the network.",
	}, 1, MaxBootOrder),

	reserved("the host reads the file and the guest starts it", medium("boot.kernel", "kernel", func(s *VMSpec) **Volref { return &s.Boot.Kernel }, Input{
		Section: SectionBoot, Kind: InputFile, Label: "Kernel", Help: "Started in place of what is on the disks. Secure boot does not check it.",
	})),
	reserved("the host reads the file and the guest starts it", medium("boot.initrd", "initial RAM disk", func(s *VMSpec) **Volref { return &s.Boot.Initrd }, Input{
		Section: SectionBoot, Kind: InputFile, Label: "Initial RAM disk",
	})),
	reserved("it goes with the kernel", text("boot.cmdline", "kernel's command line", func(s *VMSpec) *string { return &s.Boot.Cmdline }, Input{
		Section: SectionBoot, Label: "Command line", Example: "none", Help: "Of the kernel: console=ttyS0 root=/dev/vda1.",
	}, cmdlineForm, "A command line is one line of at most 1000 printable ASCII characters.")),

	choice("display.video", "graphics card", func(s *VMSpec) *string { return &s.Display.Video }, Input{Section: SectionDisplay, Label: "Graphics card", Options: VideoModels, Named: "vga"}),
	number("display.heads", "screens", "screen", func(s *VMSpec) *int { return &s.Display.Heads }, Input{
		Section: SectionDisplay, Label: "Screens", Usual: 1, Help: "Virtio and QXL can have several.",
	}, 1, MaxHeads),
	choice("display.keyboard", "keyboard", func(s *VMSpec) *string { return &s.Display.Keyboard }, Input{Section: SectionDisplay, Label: "Keyboard", Options: Keyboards}),
	choice("display.pointer", "pointer", func(s *VMSpec) *string { return &s.Display.Pointer }, Input{Section: SectionDisplay, Label: "Pointer", Options: Pointers, Named: "tablet"}),
	choice("display.sound", "sound card", func(s *VMSpec) *string { return &s.Display.Sound }, Input{Section: SectionDisplay, Label: "Sound card", Options: SoundModels, Named: "none"}),

	flag("display.spice", "SPICE", func(s *VMSpec) *bool { return &s.Display.Spice }, Input{
		Section: SectionDisplay, Label: "SPICE", Help: "Beside the console, on a socket of the host: virt-viewer reaches it there.",
	}),
	number("display.usbRedirection", "USB redirection", "port", func(s *VMSpec) *int { return &s.Display.USBRedirection }, Input{
		Section: SectionDisplay, Label: "USB redirection", Help: "As many USB devices of the viewer's machine can be the guest's, through SPICE.",
	}, 1, MaxUSBPorts),

	flag("security.tpm", "TPM", func(s *VMSpec) *bool { return &s.Security.TPM }, Input{
		Section: SectionSecurity, Label: "TPM 2.0", Help: "Its state lies on the host, until the VM is deleted: a VM with one does not go to another host.",
	}),

	flag("security.secureBoot", "secure boot", func(s *VMSpec) *bool { return &s.Security.SecureBoot }, Input{
		Section: SectionSecurity, Label: "Secure boot", Help: "UEFI starts only what is signed by keys of the host's template. With it and without it, the firmware keeps its settings apart.",
	}),

	reserved("its memory stays in the host's, where nothing else can have it", choice("security.confidential", "memory encryption", func(s *VMSpec) *string { return &s.Security.Confidential }, Input{
		Section: SectionSecurity, Label: "Memory encryption", Options: ConfidentialKinds, Named: "none",
		Help: "The processor keeps the guest's memory from its host. It takes UEFI without secure boot; no snapshot holds the memory, and the VM is not moved while it runs.",
	})),

	choice("devices.watchdog", "watchdog", func(s *VMSpec) *string { return &s.Devices.Watchdog }, Input{Section: SectionDevices, Label: "Watchdog", Options: Watchdogs, Named: "none"}),
	choice("devices.watchdogAction", "watchdog's action", func(s *VMSpec) *string { return &s.Devices.WatchdogAction }, Input{
		Section: SectionDevices, Label: "When the guest hangs", Options: WatchdogActions, Named: "reset",
	}),
	number("devices.rngRate", "random numbers", "byte/s", func(s *VMSpec) *int { return &s.Devices.RNGRate }, Input{
		Section: SectionDevices, Label: "Random numbers", Unit: "bytes/s", Help: "Empty: as many as the guest asks for.",
	}, 1, MaxRNGRate),
	reserved("it opens a way from the guest to programs of the host", flag("devices.vsock", "vsock", func(s *VMSpec) *bool { return &s.Devices.VSOCK }, Input{
		Section: SectionDevices, Label: "Vsock", Help: "A socket between the guest and its host, without a network.",
	})),
	choice("devices.balloon", "balloon", func(s *VMSpec) *string { return &s.Devices.Balloon }, Input{
		Section: SectionDevices, Label: "Memory balloon", Options: Balloons, Named: "on", Help: "Through it the guest tells how much memory it uses.",
	}),
	number("devices.serials", "serial ports", "port", func(s *VMSpec) *int { return &s.Devices.Serials }, Input{
		Section: SectionDevices, Label: "More serial ports", Help: "Beside the console's; each is a pseudo terminal of the host.",
	}, 1, MaxSerials),
	flag("devices.parallel", "parallel port", func(s *VMSpec) *bool { return &s.Devices.Parallel }, Input{
		Section: SectionDevices, Label: "Parallel port", Help: "A pseudo terminal of the host.",
	}),
	choice("devices.guestAgent", "guest agent", func(s *VMSpec) *string { return &s.Devices.GuestAgent }, Input{
		Section: SectionDevices, Label: "Guest agent", Options: GuestAgents, Named: "on",
		Help: "The channel for qemu-guest-agent: through it the guest tells its addresses and file systems, and can be frozen for a backup. On vsock it is run with --method vsock-listen --path 4294967295:1234.",
	}),

	effectiveNow(choice("policy.autostart", "when the host comes up", func(s *VMSpec) *string { return &s.Policy.Autostart }, Input{
		Section: SectionPower, Label: "When the host comes up", Options: Autostarts, Named: "off",
		Help: "The host does it by itself, also without the portal. libvirt's own autostart flag stays as it is.",
	})),
	effectiveNow(number("policy.startOrder", "place in the start order", "", func(s *VMSpec) *int { return &s.Policy.StartOrder }, Input{
		Section: SectionPower, Label: "Place in the start order", Help: "When the host comes up, and when many are started together: 1 first, those without a number last.",
	}, 1, MaxStartOrder)),
	effectiveNow(number("policy.startDelay", "wait before the next start", "s", func(s *VMSpec) *int { return &s.Policy.StartDelay }, Input{
		Section: SectionPower, Label: "Wait before the next", Unit: "s", Help: "For what the next ones need of it, such as a database.",
	}, 1, MaxStartDelay)),
	portalOnly(number("policy.stopOrder", "place in the stop order", "", func(s *VMSpec) *int { return &s.Policy.StopOrder }, Input{
		Section: SectionPower, Label: "Place in the stop order", Help: "When many are shut down together: 1 first. Empty: the reverse of the start order.",
	}, 1, MaxStartOrder)),
	portalOnly(number("policy.stopDelay", "wait after its stop", "s", func(s *VMSpec) *int { return &s.Policy.StopDelay }, Input{
		Section: SectionPower, Label: "Wait after it is off", Unit: "s", Help: "Before those that stop after it are asked to.",
	}, 1, MaxStartDelay)),
	effectiveNow(choice("policy.restart", "when it goes off by itself", func(s *VMSpec) *string { return &s.Policy.Restart }, Input{
		Section: SectionPower, Label: "Restart policy", Options: Restarts, Named: "off",
		Help: "After 10 s, then twice as long each time, up to 5 minutes. What a person stops stays off, and so does what virsh forces off.",
	})),
	effectiveNow(reserved("they run as the administrator of the guest, whoever asks for them", flag("policy.guestExec", "programs in the guest", func(s *VMSpec) *bool { return &s.Policy.GuestExec }, Input{
		Section: SectionPower, Label: "Run programs in the guest",
		Help: "Whoever may change the VM can then run programs in the guest through its agent, as its administrator, and health checks can.",
	}))),

	portalOnly(choice("policy.haPriority", "HA priority", func(s *VMSpec) *string { return &s.Policy.HAPriority }, Input{
		Section: SectionPower, Label: "HA priority", Options: HAPriorities, Named: "normal",
		Help: "Which VMs come first when their host fails. Kept for when Quantix starts them on other hosts.",
	})),

	reserved("hosts that are kept for others would take the VM", portalOnly(text("placement.tolerations", "tolerations", func(s *VMSpec) *string { return &s.Placement.Tolerations }, Input{
		Section: SectionMoves, Label: "Tolerates", Example: "none", Help: "Taints of hosts that may take the VM all the same: gpu maintenance=disk. A key alone is any value of it, * is any taint.",
	}, tolerationsForm, "Write taints with blanks between them: gpu maintenance=disk, or * for any. 16 at most."))),
	portalOnly(flag("migration.stays", "staying on its host", func(s *VMSpec) *bool { return &s.Migration.Stays }, Input{
		Section: SectionMoves, Label: "Stays on its host", Help: "It goes to no other host until this is taken back. Its disks can go to other pools.",
	})),
	portalOnly(number("migration.limitMiB", "limit of moves", "MiB/s", func(s *VMSpec) *int { return &s.Migration.LimitMiB }, Input{
		Section: SectionMoves, Label: "At most", Unit: "MiB/s", Help: "Of what is moved to another pool or host. A slower move can be asked for. Empty: as fast as can be.",
	}, 1, MaxMoveLimit)),
	portalOnly(flag("migration.postCopy", "post-copy", func(s *VMSpec) *bool { return &s.Migration.PostCopy }, Input{
		Section: SectionMoves, Label: "Post-copy", Help: "The guest goes on at its new host before all of its memory is there. Kept for when Quantix moves guests that run.",
	})),
	portalOnly(number("migration.downtimeMs", "downtime of moves", "ms", func(s *VMSpec) *int { return &s.Migration.DowntimeMs }, Input{
		Section: SectionMoves, Label: "Downtime at most", Unit: "ms", Help: "How long the guest may stand still at the end of a move. Kept for when Quantix moves guests that run.",
	}, 1, MaxDowntimeMs)),

	portalOnly(rowsOf("rules", "placement rules", func(s *VMSpec) *[]PlacementRule { return &s.Rules }, SaysRules, func(c *Checks, field string, s VMSpec) { checkRules(c, field, s.Rules) })),
	rowsOf("health", "health checks", func(s *VMSpec) *[]HealthCheck { return &s.Health }, SaysHealth, func(c *Checks, field string, s VMSpec) { s.checkHealth(c, field) }),

	firstBoot(),
}

// Parts returns the VM's optional fields: partFields and VMLists. They were added over time, so an older agent may not
// know all of them.
func Parts() []Field[VMSpec] { return allOptionalFields }

var allOptionalFields = func() []Field[VMSpec] {
	out := slices.Clone(optionalFields)
	for _, f := range VMLists {
		out = append(out, f.Field)
	}
	return out
}()

// PartNames returns the names of all optional fields, those of disks ("disks.bus") and NICs ("nics.model") included.
func PartNames() []string {
	var out []string
	for _, f := range allOptionalFields {
		out = append(out, f.Name)
	}
	for _, f := range DiskFields {
		out = append(out, "disks."+f.Name)
	}
	for _, f := range NICFields {
		out = append(out, "nics."+f.Name)
	}
	return out
}

// UsedPart is an optional field that has a value other than its default.
// for example "nics.model" at "nics[0].model"; Value is set for choices
type UsedPart struct{ Name, At, Type, Value string }

// Used returns the spec's optional fields with a non-default value, each once; for devices, once per distinct choice.
func (s VMSpec) Used() []UsedPart {
	var out []UsedPart
	for _, f := range allOptionalFields {
		if !f.Default(s) && !f.Portal {
			word, _ := f.Value(s).(string)
			out = append(out, UsedPart{f.Name, f.Name, f.Type, word})
		}
	}
	return slices.Concat(out, used("disks", s.Disks, DiskFields), used("nics", s.NICs, NICFields))
}

// used returns the non-default fields of a list's elements: each once, and choices once per distinct value.
func used[T any](list string, all []T, fields []Field[T]) (out []UsedPart) {
	for _, f := range fields {
		seen := map[string]bool{}
		for i, v := range all {
			word, _ := f.Value(v).(string)
			if f.Input.Kind != InputChoice {
				word = ""
			}
			if !f.Default(v) && !seen[word] {
				seen[word] = true
				out = append(out, UsedPart{list + "." + f.Name, fmt.Sprintf("%s[%d].%s", list, i, f.Name), f.Type, word})
			}
		}
	}
	return out
}

// checkOptionalFields validates the optional fields, each alone and in combination.
func (s VMSpec) checkOptionalFields(c *Checks, prefix string) {
	for _, f := range allOptionalFields {
		f.check(c, prefix+"."+f.Name, s)
	}
	within := func(n int) bool { return n >= 0 && n <= MaxCPUs }
	most := max(s.CPUs, s.CPU.Max)
	if t := s.CPU; (t.Sockets != 0 || t.Cores != 0 || t.Threads != 0) && within(t.Sockets) && within(t.Cores) && within(t.Threads) {
		if n := max(t.Sockets, 1) * max(t.Cores, 1) * max(t.Threads, 1); n != most {
			c.Add(prefix+".cpu.sockets", "Sockets × cores × threads is %d, and the VM has %s.", n, count(most, "vCPU"))
		}
	}
	if n := s.CPU.Max; n > 0 && n < s.CPUs {
		c.Add(prefix+".cpu.max", "The VM has %s already. Give at least as many, or nothing.", count(s.CPUs, "vCPU"))
	}
	if n := s.Memory.MaxMiB; n > 0 && n < s.MemoryMiB {
		c.Add(prefix+".memory.maxMiB", "The VM has %d MiB already. Give at least as much, or nothing.", s.MemoryMiB)
	}
	if s.Security.SecureBoot && s.Firmware != UEFI {
		c.Add(prefix+".security.secureBoot", "Secure boot is UEFI's. Choose UEFI, or leave it.")
	}
	features := map[string]bool{}
	for f := range strings.FieldsSeq(s.CPU.Features) {
		if features[f[1:]] && cpuFeaturesForm.MatchString(s.CPU.Features) {
			c.Add(prefix+".cpu.features", "%s is there twice.", f[1:])
		}
		features[f[1:]] = true
	}
	s.checkMachine(c, prefix)
	if r := s.CPU.Reserved; s.CPU.Limit > 0 && r > s.CPU.Limit {
		c.Add(prefix+".cpu.reserved", "The limit is %d %%. Reserve at most as much, or nothing.", s.CPU.Limit)
	}
	s.checkBootOrder(c, prefix)
	s.checkConfidential(c, prefix)
	s.checkLists(c, prefix)
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
