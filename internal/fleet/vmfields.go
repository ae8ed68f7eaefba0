package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Choices of optional VM fields. The empty value is the default.
var (
	CPUModels = []Option{
		{"", "Default (best of the host)"},
		{"host-passthrough", "Host passthrough"},
		{"host-model", "Host model"},
		{"maximum", "Maximum (all emulated features)"},
		{BaselineModel, "Newest model of all hosts"},
	}
	VideoModels = []Option{{"", "VGA"}, {"virtio", "Virtio"}, {"qxl", "QXL"}, {"bochs", "Bochs (UEFI)"}, {"none", "None"}}
	Keyboards   = []Option{
		{"", "Default (raw key codes)"},
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
	Watchdogs       = []Option{{"", "None"}, {"i6300esb", "Intel 6300ESB"}, {"itco", "Intel iTCO (chipset)"}}
	Balloons        = []Option{{"", "On"}, {"reporting", "On, with free page reporting"}, {"none", "None"}}
	GuestAgents     = []Option{{"", "On (virtio-serial)"}, {AgentOnVSOCK, "On (vsock)"}, {"none", "None"}}
	Autostarts      = []Option{{"", "Stay off"}, {"last", "Start if it was running"}, {"on", "Start"}}
	HAPriorities    = []Option{{"", "Normal"}, {"low", "Low"}, {"high", "High"}, {"never", "Never"}}
	Restarts        = []Option{{"", "Stay off"}, {"onFailure", "Restart after a crash"}, {"always", "Always restart"}}
	WatchdogActions = []Option{
		{"", "Reset"}, {"poweroff", "Power off"}, {"shutdown", "Shut down"}, {"pause", "Pause"}, {"inject-nmi", "Non-maskable interrupt"}, {"none", "Nothing"},
	}
)

// Bounds of optional VM fields.
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

// defaultShares is libvirt's default CPU weight (shares) of a domain.
const defaultShares = 1024

// optionalFields are the fields that map to a single place in a domain's definition, by form section.
var optionalFields = []Field[VMSpec]{
	textField("cpu.model", "CPU model", func(s *VMSpec) *string { return &s.CPU.Model }, FormInput{
		Section: SectionCPU, Label: "Model", Options: CPUModels,
		Help: "VMs that migrate need a model that all of their hosts support, such as Skylake-Server.",
	}, cpuModelForm, "Enter the name of a CPU model, such as Skylake-Server."),
	numberField("cpu.sockets", "sockets", func(s *VMSpec) *int { return &s.CPU.Sockets }, FormInput{Section: SectionCPU, Label: "Sockets", CountUnit: "socket", Default: 1}, 1, MaxCPUs),
	numberField("cpu.cores", "cores per socket", func(s *VMSpec) *int { return &s.CPU.Cores }, FormInput{Section: SectionCPU, Label: "Cores per socket", CountUnit: "core", Default: 1}, 1, MaxCPUs),
	numberField("cpu.threads", "threads per core", func(s *VMSpec) *int { return &s.CPU.Threads }, FormInput{
		Section: SectionCPU, Label: "Threads per core", CountUnit: "thread", Default: 1, Help: "Sockets × cores × threads is the maximum number of vCPUs. Empty: one socket per vCPU.",
	}, 1, MaxCPUs),
	numberField("cpu.max", "maximum vCPUs", func(s *VMSpec) *int { return &s.CPU.Max }, FormInput{
		Section: SectionCPU, Label: "Maximum vCPUs", CountUnit: "vCPU", Help: "vCPUs can be hot-plugged up to this number. Empty: no hot-plug.",
	}, 1, MaxCPUs),
	textField("cpu.features", "CPU features", func(s *VMSpec) *string { return &s.CPU.Features }, FormInput{
		Section: SectionCPU, Label: "Features", Help: "Features added to the model or removed from it: +aes -vmx.",
	}, cpuFeaturesForm, "Write each feature with + or -, separated by blanks: +aes -vmx. At most 32."),
	markOperatorOnlyAbove(defaultShares, "more than 1024 takes processor time from other VMs", func(s VMSpec) int { return s.CPU.Shares },
		markEffectiveNow(numberField("cpu.shares", "CPU shares", func(s *VMSpec) *int { return &s.CPU.Shares }, FormInput{
			Section: SectionCPU, Label: "Shares", Default: defaultShares, Help: "Weight while the host's processors are busy. Other VMs have 1024.",
		}, 2, 262144))),
	markEffectiveNow(numberField("cpu.limit", "CPU limit", func(s *VMSpec) *int { return &s.CPU.Limit }, FormInput{
		Section: SectionCPU, Label: "Limit", Unit: "%", Help: "Percent of a processor per vCPU.",
	}, 1, 100)),
	markOperatorOnly("other VMs cannot use the reserved processors", markPortalOnly(numberField("cpu.reserved", "CPU reservation", func(s *VMSpec) *int { return &s.CPU.Reserved }, FormInput{
		Section: SectionCPU, Label: "Reserved", Unit: "%", Help: "Percent of a processor per vCPU, reserved even while the VM is off. A host cannot reserve more than all of its processors.",
	}, 1, 100))),
	markOperatorOnly("other VMs may need these processors", textField("cpu.pinned", "CPU pinning", func(s *VMSpec) *string { return &s.CPU.Pinned }, FormInput{
		Section: SectionCPU, Label: "Pinned to", Help: "The host's processors that run the vCPUs: 0-3,6.",
	}, cpuSetForm, "Enter numbers and ranges, such as 0-3,6.")),

	markOperatorOnly("other VMs then lack these pages", numberField("memory.hugePageKiB", "huge pages", func(s *VMSpec) *int { return &s.Memory.HugePageKiB }, FormInput{
		Section: SectionMemory, Label: "Huge pages", Unit: "KiB", Help: "2048 or 1048576 on most hosts. The host needs enough free pages for the VM's memory.",
	}, 4, 1<<24)),
	markOperatorOnly("the host cannot reclaim this memory", flagField("memory.locked", "locked memory", func(s *VMSpec) *bool { return &s.Memory.Locked }, FormInput{
		Section: SectionMemory, Label: "Locked", Help: "The host never swaps the memory out.",
	})),
	flagField("memory.shared", "shared memory", func(s *VMSpec) *bool { return &s.Memory.Shared }, FormInput{
		Section: SectionMemory, Label: "Shared", Help: "Shared with other programs of the host, as virtiofs requires.",
	}),
	numberField("memory.maxMiB", "maximum memory", func(s *VMSpec) *int { return &s.Memory.MaxMiB }, FormInput{
		Section: SectionMemory, Label: "Maximum memory", Unit: "MiB", Help: "Memory can be hot-plugged up to this size, in steps of 128 MiB. Empty: no hot-plug.",
	}, MinMemoryMiB, MaxMemoryMiB),
	markEffectiveNow(numberField("memory.balloonMiB", "balloon target", func(s *VMSpec) *int { return &s.Memory.BalloonMiB }, FormInput{
		Section: SectionMemory, Label: "Balloon target", Unit: "MiB", Help: "The balloon returns the rest of the memory to the host, as far as the guest allows. Empty: none.",
	}, MinMemoryMiB, MaxMemoryMiB)),
	markEffectiveNow(numberField("memory.minMiB", "minimum memory", func(s *VMSpec) *int { return &s.Memory.MinMiB }, FormInput{
		Section: SectionMemory, Label: "Minimum memory", Unit: "MiB", Help: "While the host is short of memory, the balloon reclaims memory down to this size. Empty: it reclaims none.",
	}, MinMemoryMiB, MaxMemoryMiB)),
	markOperatorOnly("other VMs may need the memory of these nodes", textField("memory.nodes", "NUMA nodes", func(s *VMSpec) *string { return &s.Memory.Nodes }, FormInput{
		Section: SectionMemory, Label: "NUMA nodes", Help: "The host's NUMA nodes that provide the memory: 0-1.",
	}, cpuSetForm, "Enter numbers and ranges, such as 0-1.")),

	markUneditable("the guest would find every device at another address and might not boot. Create a new VM", choiceField("boot.machine", "machine", func(s *VMSpec) *string { return &s.Boot.Machine }, FormInput{
		Section: SectionBoot, Label: "Machine", Options: Machines, DefaultName: "q35", Help: "Cannot be changed after creation. The machine pc is for old guests: it has BIOS and IDE disks.",
	})),
	flagField("boot.menu", "boot menu", func(s *VMSpec) *bool { return &s.Boot.Menu }, FormInput{
		Section: SectionBoot, Label: "Boot menu", Help: "The firmware shows its boot menu for some seconds.",
	}),
	numberField("boot.cdrom", "CD-ROM boot order", func(s *VMSpec) *int { return &s.Boot.CDROM }, FormInput{
		Section: SectionBoot, Label: "CD-ROM boot order", Help: "Position among the disks and NICs with a boot order. Default: disks, then the CD-ROM, then the network.",
	}, 1, MaxBootOrder),

	markOperatorOnly("the host reads the file and the guest starts it", mediumField("boot.kernel", "kernel", func(s *VMSpec) **Volref { return &s.Boot.Kernel }, FormInput{
		Section: SectionBoot, Kind: InputFile, Label: "Kernel", Help: "Booted instead of the disks. Secure Boot does not verify it.",
	})),
	markOperatorOnly("the host reads the file and the guest starts it", mediumField("boot.initrd", "initial RAM disk", func(s *VMSpec) **Volref { return &s.Boot.Initrd }, FormInput{
		Section: SectionBoot, Kind: InputFile, Label: "Initial RAM disk",
	})),
	markOperatorOnly("it belongs to the kernel", textField("boot.cmdline", "kernel command line", func(s *VMSpec) *string { return &s.Boot.Cmdline }, FormInput{
		Section: SectionBoot, Label: "Command line", Example: "none", Help: "Command line of the kernel: console=ttyS0 root=/dev/vda1.",
	}, cmdlineForm, "A command line is one line of at most 1000 printable ASCII characters.")),

	choiceField("display.video", "graphics card", func(s *VMSpec) *string { return &s.Display.Video }, FormInput{Section: SectionDisplay, Label: "Graphics card", Options: VideoModels, DefaultName: "vga"}),
	numberField("display.heads", "screens", func(s *VMSpec) *int { return &s.Display.Heads }, FormInput{
		Section: SectionDisplay, Label: "Screens", CountUnit: "screen", Default: 1, Help: "Virtio and QXL support several screens.",
	}, 1, MaxHeads),
	choiceField("display.keyboard", "keyboard", func(s *VMSpec) *string { return &s.Display.Keyboard }, FormInput{Section: SectionDisplay, Label: "Keyboard", Options: Keyboards}),
	choiceField("display.pointer", "pointer", func(s *VMSpec) *string { return &s.Display.Pointer }, FormInput{Section: SectionDisplay, Label: "Pointer", Options: Pointers, DefaultName: "tablet"}),
	choiceField("display.sound", "sound card", func(s *VMSpec) *string { return &s.Display.Sound }, FormInput{Section: SectionDisplay, Label: "Sound card", Options: SoundModels, DefaultName: "none"}),

	flagField("display.spice", "SPICE", func(s *VMSpec) *bool { return &s.Display.Spice }, FormInput{
		Section: SectionDisplay, Label: "SPICE", Help: "A SPICE server on a socket of the host, for virt-viewer. The console stays available.",
	}),
	numberField("display.usbRedirection", "USB redirection", func(s *VMSpec) *int { return &s.Display.USBRedirection }, FormInput{
		Section: SectionDisplay, Label: "USB redirection", CountUnit: "port", Help: "Number of USB devices of the viewer's machine that SPICE can redirect to the guest.",
	}, 1, MaxUSBPorts),

	flagField("security.tpm", "TPM", func(s *VMSpec) *bool { return &s.Security.TPM }, FormInput{
		Section: SectionSecurity, Label: "TPM 2.0", Help: "The TPM's state is stored on the host until the VM is deleted. A VM with a TPM migrates only while it runs.",
	}),

	flagField("security.secureBoot", "secure boot", func(s *VMSpec) *bool { return &s.Security.SecureBoot }, FormInput{
		Section: SectionSecurity, Label: "Secure boot", Help: "UEFI boots only code signed with the keys of the host's template. Firmware settings are separate with and without Secure Boot.",
	}),

	markOperatorOnly("the host cannot reclaim or swap its memory", choiceField("security.confidential", "memory encryption", func(s *VMSpec) *string { return &s.Security.Confidential }, FormInput{
		Section: SectionSecurity, Label: "Memory encryption", Options: ConfidentialKinds, DefaultName: "none",
		Help: "The processor encrypts the guest's memory. Needs UEFI without Secure Boot. Snapshots with memory and live migration are not possible.",
	})),

	choiceField("devices.watchdog", "watchdog", func(s *VMSpec) *string { return &s.Devices.Watchdog }, FormInput{Section: SectionDevices, Label: "Watchdog", Options: Watchdogs, DefaultName: "none"}),
	choiceField("devices.watchdogAction", "watchdog action", func(s *VMSpec) *string { return &s.Devices.WatchdogAction }, FormInput{
		Section: SectionDevices, Label: "Watchdog action", Options: WatchdogActions, DefaultName: "reset",
	}),
	numberField("devices.rngRate", "random numbers", func(s *VMSpec) *int { return &s.Devices.RNGRate }, FormInput{
		Section: SectionDevices, Label: "Random numbers", Unit: "bytes/s", Help: "Limit of the random number generator. Empty: unlimited.",
	}, 1, MaxRNGRate),
	markOperatorOnly("it lets the guest connect to programs of the host", flagField("devices.vsock", "vsock", func(s *VMSpec) *bool { return &s.Devices.VSOCK }, FormInput{
		Section: SectionDevices, Label: "Vsock", Help: "A socket between the guest and its host, without a network.",
	})),
	choiceField("devices.balloon", "balloon", func(s *VMSpec) *string { return &s.Devices.Balloon }, FormInput{
		Section: SectionDevices, Label: "Memory balloon", Options: Balloons, DefaultName: "on", Help: "The balloon device also reports the guest's memory usage.",
	}),
	numberField("devices.serials", "serial ports", func(s *VMSpec) *int { return &s.Devices.Serials }, FormInput{
		Section: SectionDevices, Label: "More serial ports", CountUnit: "port", Help: "In addition to the console's port. Each is a pseudo terminal of the host.",
	}, 1, MaxSerials),
	flagField("devices.parallel", "parallel port", func(s *VMSpec) *bool { return &s.Devices.Parallel }, FormInput{
		Section: SectionDevices, Label: "Parallel port", Help: "A pseudo terminal of the host.",
	}),
	choiceField("devices.guestAgent", "guest agent", func(s *VMSpec) *string { return &s.Devices.GuestAgent }, FormInput{
		Section: SectionDevices, Label: "Guest agent", Options: GuestAgents, DefaultName: "on",
		Help: "The channel for qemu-guest-agent, which reports addresses and file systems, and freezes them for backups. On vsock, run the agent with --method vsock-listen --path 4294967295:1234.",
	}),

	markEffectiveNow(choiceField("policy.autostart", "autostart", func(s *VMSpec) *string { return &s.Policy.Autostart }, FormInput{
		Section: SectionPower, Label: "Autostart", Options: Autostarts, DefaultName: "off",
		Help: "The agent starts the VM when the host boots, even without the portal. libvirt's own autostart flag is not changed.",
	})),
	markEffectiveNow(numberField("policy.startOrder", "start order", func(s *VMSpec) *int { return &s.Policy.StartOrder }, FormInput{
		Section: SectionPower, Label: "Start order", Help: "When the host boots, and when several VMs are started together: 1 first, VMs without a number last.",
	}, 1, MaxStartOrder)),
	markEffectiveNow(numberField("policy.startDelay", "start delay", func(s *VMSpec) *int { return &s.Policy.StartDelay }, FormInput{
		Section: SectionPower, Label: "Start delay", Unit: "s", Help: "Time before the next VM starts.",
	}, 1, MaxStartDelay)),
	markPortalOnly(numberField("policy.stopOrder", "stop order", func(s *VMSpec) *int { return &s.Policy.StopOrder }, FormInput{
		Section: SectionPower, Label: "Stop order", Help: "When several VMs are shut down together: 1 first. Empty: the reverse of the start order.",
	}, 1, MaxStartOrder)),
	markPortalOnly(numberField("policy.stopDelay", "stop delay", func(s *VMSpec) *int { return &s.Policy.StopDelay }, FormInput{
		Section: SectionPower, Label: "Stop delay", Unit: "s", Help: "Time after the VM is off before the next VM is shut down.",
	}, 1, MaxStartDelay)),
	markEffectiveNow(choiceField("policy.restart", "restart policy", func(s *VMSpec) *string { return &s.Policy.Restart }, FormInput{
		Section: SectionPower, Label: "Restart policy", Options: Restarts, DefaultName: "off",
		Help: "After 10 s, then twice as long each time, up to 5 minutes. A VM that a user or virsh stopped stays off.",
	})),
	markEffectiveNow(markOperatorOnly("they run as the guest's administrator", flagField("policy.guestExec", "programs in the guest", func(s *VMSpec) *bool { return &s.Policy.GuestExec }, FormInput{
		Section: SectionPower, Label: "Run programs in the guest",
		Help: "Users who may change the VM, and its health checks, can run programs in the guest as its administrator, through the guest agent.",
	}))),

	markPortalOnly(choiceField("policy.haPriority", "HA priority", func(s *VMSpec) *string { return &s.Policy.HAPriority }, FormInput{
		Section: SectionPower, Label: "HA priority", Options: HAPriorities, DefaultName: "normal",
		Help: "Order of VMs when their host fails. Stored for failover to other hosts, which is not supported yet.",
	})),

	markOperatorOnly("the VM could run on hosts that are reserved for others", markPortalOnly(textField("placement.tolerations", "tolerations", func(s *VMSpec) *string { return &s.Placement.Tolerations }, FormInput{
		Section: SectionMigration, Label: "Tolerations", Example: "none", Help: "Taints of hosts that the VM tolerates: gpu maintenance=disk. A key alone means any value, * means any taint.",
	}, tolerationsForm, "Write taints separated by blanks: gpu maintenance=disk, or * for any. At most 16."))),
	markOperatorOnly("the VM could take memory from other VMs of its host", markPortalOnly(flagField("placement.overcommit", "overcommit", func(s *VMSpec) *bool { return &s.Placement.Overcommit }, FormInput{
		Section: SectionMigration, Label: "Start by overcommit", Help: "The VM can be started although its host has not enough capacity for all running VMs.",
	}))),
	markPortalOnly(flagField("migration.stays", "no migration", func(s *VMSpec) *bool { return &s.Migration.Stays }, FormInput{
		Section: SectionMigration, Label: "No migration", Help: "The VM cannot migrate to another host. Its disks can move to other pools.",
	})),
	markPortalOnly(numberField("migration.limitMiB", "migration bandwidth", func(s *VMSpec) *int { return &s.Migration.LimitMiB }, FormInput{
		Section: SectionMigration, Label: "Bandwidth limit", Unit: "MiB/s", Help: "Limit of migrations to another pool or host. A request can set a lower limit. Empty: unlimited.",
	}, 1, MaxMoveLimit)),
	markPortalOnly(flagField("migration.postCopy", "post-copy", func(s *VMSpec) *bool { return &s.Migration.PostCopy }, FormInput{
		Section: SectionMigration, Label: "Post-copy", Help: "The guest resumes on the new host before all of its memory has arrived. The VM is lost if a host or the connection fails then.",
	})),
	markPortalOnly(numberField("migration.downtimeMs", "maximum downtime", func(s *VMSpec) *int { return &s.Migration.DowntimeMs }, FormInput{
		Section: SectionMigration, Label: "Maximum downtime", Unit: "ms", Help: "Maximum pause of the guest at the end of a live migration. Empty: 300.",
	}, 1, MaxDowntimeMs)),

	markPortalOnly(rowsField("rules", "placement rules", func(s *VMSpec) *[]PlacementRule { return &s.Rules }, PlacementRulesText, func(c *Checks, field string, s VMSpec) { checkRules(c, field, s.Rules) })),
	rowsField("health", "health checks", func(s *VMSpec) *[]HealthCheck { return &s.Health }, HealthChecksText, func(c *Checks, field string, s VMSpec) { s.checkHealth(c, field) }),

	firstBootField(),
}

// OptionalFields returns the VM's optional fields: optionalFields and VMLists. An older agent may support only some of
// them.
func OptionalFields() []Field[VMSpec] { return allOptionalFields }

var allOptionalFields = func() []Field[VMSpec] {
	out := slices.Clone(optionalFields)
	for _, f := range VMLists {
		out = append(out, f.Field)
	}
	return out
}()

// OptionalFieldNames returns the names of all optional fields, including those of disks ("disks.bus") and NICs
// ("nics.model").
func OptionalFieldNames() []string {
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

// UsedField is an optional field with a non-default value, such as "nics.model" at "nics[0].model". Value is set only
// for a field with a fixed list of choices.
type UsedField struct{ Name, At, Type, Value string }

// UsedFields returns the spec's optional fields that have a non-default value, each once. A choice field of devices is
// listed once per distinct value.
func (s VMSpec) UsedFields() []UsedField {
	var out []UsedField
	for _, f := range allOptionalFields {
		if !f.Default(s) && !f.PortalOnly {
			word, _ := f.Value(s).(string)
			out = append(out, UsedField{f.Name, f.Name, f.Type, word})
		}
	}
	return slices.Concat(out, usedElementFields("disks", s.Disks, DiskFields), usedElementFields("nics", s.NICs, NICFields))
}

// usedElementFields returns the non-default fields of a list's elements: each once, but a choice field once per
// distinct value.
func usedElementFields[T any](list string, all []T, fields []Field[T]) (out []UsedField) {
	for _, f := range fields {
		seen := map[string]bool{}
		for i, v := range all {
			word, _ := f.Value(v).(string)
			if f.Input.Kind != InputChoice {
				word = ""
			}
			if !f.Default(v) && !seen[word] {
				seen[word] = true
				out = append(out, UsedField{list + "." + f.Name, fmt.Sprintf("%s[%d].%s", list, i, f.Name), f.Type, word})
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
			c.Add(prefix+".cpu.sockets", "Sockets × cores × threads is %d, and the VM has %s.", n, CountWithUnit(most, "vCPU"))
		}
	}
	if n := s.CPU.Max; n > 0 && n < s.CPUs {
		c.Add(prefix+".cpu.max", "The maximum must be at least the VM's %s.", CountWithUnit(s.CPUs, "vCPU"))
	}
	if n := s.Memory.MaxMiB; n > 0 && n < s.MemoryMiB {
		c.Add(prefix+".memory.maxMiB", "The maximum must be at least the VM's %d MiB.", s.MemoryMiB)
	}
	if s.Security.SecureBoot && s.Firmware != UEFI {
		c.Add(prefix+".security.secureBoot", "Secure Boot needs UEFI. Choose UEFI, or disable Secure Boot.")
	}
	features := map[string]bool{}
	for f := range strings.FieldsSeq(s.CPU.Features) {
		if features[f[1:]] && cpuFeaturesForm.MatchString(s.CPU.Features) {
			c.Add(prefix+".cpu.features", "%s is listed twice.", f[1:])
		}
		features[f[1:]] = true
	}
	s.checkMachine(c, prefix)
	if r := s.CPU.Reserved; s.CPU.Limit > 0 && r > s.CPU.Limit {
		c.Add(prefix+".cpu.reserved", "The reservation must not exceed the limit of %d %%.", s.CPU.Limit)
	}
	s.checkBootOrder(c, prefix)
	s.checkConfidential(c, prefix)
	s.checkFieldConflicts(c, prefix)
	if n := s.Memory.HugePageKiB; n > 0 && n&(n-1) != 0 {
		c.Add(prefix+".memory.hugePageKiB", "A page size must be a power of 2: 2048 or 1048576 on most hosts.")
	}
	if d := s.Display; d.Heads > 1 && d.Video != "virtio" && d.Video != "qxl" {
		c.Add(prefix+".display.heads", "Only a virtio or QXL graphics card can have several screens.")
	}
	if d := s.Devices; d.WatchdogAction != "" && d.Watchdog == "" {
		c.Add(prefix+".devices.watchdogAction", "Choose a watchdog, or remove the watchdog action.")
	}
}
