package fleet_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/vmspec"
)

func TestOptionalVMFieldsAreValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*fleet.VMSpec)
		want   []string
	}{
		"no changes":                  {func(*fleet.VMSpec) {}, nil},
		"a model's name":              {func(s *fleet.VMSpec) { s.CPU.Model = "Skylake-Server-v4" }, nil},
		"a CPU mode":                  {func(s *fleet.VMSpec) { s.CPU.Model = "host-passthrough" }, nil},
		"a model like an option":      {func(s *fleet.VMSpec) { s.CPU.Model = "-cpu" }, []string{"spec.cpu.model"}},
		"a model with markup":         {func(s *fleet.VMSpec) { s.CPU.Model = "a</model>" }, []string{"spec.cpu.model"}},
		"a model in two lines":        {func(s *fleet.VMSpec) { s.CPU.Model = "qemu64\nx" }, []string{"spec.cpu.model"}},
		"a model that is long":        {func(s *fleet.VMSpec) { s.CPU.Model = strings.Repeat("a", 64) }, []string{"spec.cpu.model"}},
		"a topology":                  {func(s *fleet.VMSpec) { s.CPU = fleet.VMCPU{Sockets: 2, Cores: 2, Threads: 2} }, nil},
		"only cores":                  {func(s *fleet.VMSpec) { s.CPU.Cores = 8 }, nil},
		"too few cores":               {func(s *fleet.VMSpec) { s.CPU.Cores = 4 }, []string{"spec.cpu.sockets"}},
		"negative sockets":            {func(s *fleet.VMSpec) { s.CPU = fleet.VMCPU{Sockets: -8, Cores: -1} }, []string{"spec.cpu.sockets", "spec.cpu.cores"}},
		"too many threads":            {func(s *fleet.VMSpec) { s.CPU.Threads = fleet.MaxCPUs + 1 }, []string{"spec.cpu.threads"}},
		"a product that overflows":    {func(s *fleet.VMSpec) { s.CPU = fleet.VMCPU{Sockets: 1 << 62, Cores: 4, Threads: 2} }, []string{"spec.cpu.sockets"}},
		"huge pages":                  {func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 2048 }, nil},
		"pages of a byte":             {func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 1 }, []string{"spec.memory.hugePageKiB"}},
		"pages of 3 MiB":              {func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 3072 }, []string{"spec.memory.hugePageKiB"}},
		"two screens":                 {func(s *fleet.VMSpec) { s.Display.Video, s.Display.Heads = "virtio", 2 }, nil},
		"one screen of VGA":           {func(s *fleet.VMSpec) { s.Display.Heads = 1 }, nil},
		"two screens of VGA":          {func(s *fleet.VMSpec) { s.Display.Heads = 2 }, []string{"spec.display.heads"}},
		"too many screens":            {func(s *fleet.VMSpec) { s.Display.Video, s.Display.Heads = "qxl", 17 }, []string{"spec.display.heads"}},
		"an unknown video device":     {func(s *fleet.VMSpec) { s.Display.Video = "vmvga" }, []string{"spec.display.video"}},
		"an unknown keyboard":         {func(s *fleet.VMSpec) { s.Display.Keyboard = "../../de" }, []string{"spec.display.keyboard"}},
		"an unknown pointer":          {func(s *fleet.VMSpec) { s.Display.Pointer = "tablet " }, []string{"spec.display.pointer"}},
		"an unknown sound card":       {func(s *fleet.VMSpec) { s.Display.Sound = "sb16" }, []string{"spec.display.sound"}},
		"a watchdog":                  {func(s *fleet.VMSpec) { s.Devices.Watchdog, s.Devices.WatchdogAction = "i6300esb", "poweroff" }, nil},
		"an action alone":             {func(s *fleet.VMSpec) { s.Devices.WatchdogAction = "poweroff" }, []string{"spec.devices.watchdogAction"}},
		"an unsupported action":       {func(s *fleet.VMSpec) { s.Devices.Watchdog, s.Devices.WatchdogAction = "i6300esb", "dump" }, []string{"spec.devices.watchdogAction"}},
		"a first boot":                {func(s *fleet.VMSpec) { s.FirstBoot = fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1} }, nil},
		"an unknown first boot":       {func(s *fleet.VMSpec) { s.FirstBoot = fleet.VMFirstBoot{Kind: "kickstart", Number: 1} }, []string{"spec.firstBoot"}},
		"a first boot without number": {func(s *fleet.VMSpec) { s.FirstBoot.Kind = fleet.CloudInit }, []string{"spec.firstBoot"}},
		"a number without first boot": {func(s *fleet.VMSpec) { s.FirstBoot.Number = 3 }, []string{"spec.firstBoot"}},
		"a negative rate":             {func(s *fleet.VMSpec) { s.Devices.RNGRate = -1 }, []string{"spec.devices.rngRate"}},
		"no channel":                  {func(s *fleet.VMSpec) { s.Devices.GuestAgent = "none" }, nil},
		"an unknown channel":          {func(s *fleet.VMSpec) { s.Devices.GuestAgent = "org.qemu.guest_agent.1" }, []string{"spec.devices.guestAgent"}},
		"a policy": {func(s *fleet.VMSpec) {
			s.Policy = fleet.VMPolicy{Autostart: "last", StartOrder: 1000, StartDelay: 3600, Restart: "onFailure"}
		}, nil},
		"an unknown autostart":             {func(s *fleet.VMSpec) { s.Policy.Autostart = "yes" }, []string{"spec.policy.autostart"}},
		"negative start order":             {func(s *fleet.VMSpec) { s.Policy = fleet.VMPolicy{Autostart: "on", StartOrder: -1} }, []string{"spec.policy.startOrder"}},
		"start order too high":             {func(s *fleet.VMSpec) { s.Policy = fleet.VMPolicy{Autostart: "on", StartOrder: 1001} }, []string{"spec.policy.startOrder"}},
		"start order without autostart":    {func(s *fleet.VMSpec) { s.Policy.StartOrder = 1 }, nil},
		"start delay of a day":             {func(s *fleet.VMSpec) { s.Policy = fleet.VMPolicy{Autostart: "on", StartDelay: 86400} }, []string{"spec.policy.startDelay"}},
		"negative start delay":             {func(s *fleet.VMSpec) { s.Policy = fleet.VMPolicy{Autostart: "on", StartDelay: -5} }, []string{"spec.policy.startDelay"}},
		"start delay without autostart":    {func(s *fleet.VMSpec) { s.Policy.StartDelay = 10 }, nil},
		"a stop order":                     {func(s *fleet.VMSpec) { s.Policy.StopOrder, s.Policy.StopDelay = 1, 10 }, nil},
		"negative stop order":              {func(s *fleet.VMSpec) { s.Policy.StopOrder = -1 }, []string{"spec.policy.stopOrder"}},
		"stop order too high":              {func(s *fleet.VMSpec) { s.Policy.StopOrder = fleet.MaxStartOrder + 1 }, []string{"spec.policy.stopOrder"}},
		"negative stop delay":              {func(s *fleet.VMSpec) { s.Policy.StopDelay = -1 }, []string{"spec.policy.stopDelay"}},
		"stop delay too long":              {func(s *fleet.VMSpec) { s.Policy.StopDelay = fleet.MaxStartDelay + 1 }, []string{"spec.policy.stopDelay"}},
		"a restart in uppercase":           {func(s *fleet.VMSpec) { s.Policy.Restart = "ALWAYS" }, []string{"spec.policy.restart"}},
		"a restart with markup":            {func(s *fleet.VMSpec) { s.Policy.Restart = "]]>" }, []string{"spec.policy.restart"}},
		"no migration, with a limit":       {func(s *fleet.VMSpec) { s.Migration = fleet.VMMigration{Stays: true, LimitMiB: 1 << 20} }, nil},
		"migration limit too high":         {func(s *fleet.VMSpec) { s.Migration.LimitMiB = 1<<20 + 1 }, []string{"spec.migration.limitMiB"}},
		"negative migration limit":         {func(s *fleet.VMSpec) { s.Migration.LimitMiB = -1 }, []string{"spec.migration.limitMiB"}},
		"rate too high":                    {func(s *fleet.VMSpec) { s.Devices.RNGRate = fleet.MaxRNGRate + 1 }, []string{"spec.devices.rngRate"}},
		"an agent on a vsock":              {func(s *fleet.VMSpec) { s.Devices.VSOCK, s.Devices.GuestAgent = true, "vsock" }, nil},
		"an agent without its vsock":       {func(s *fleet.VMSpec) { s.Devices.GuestAgent = "vsock" }, []string{"spec.devices.guestAgent"}},
		"features":                         {func(s *fleet.VMSpec) { s.CPU.Features = "+aes -vmx +avx512-vnni" }, nil},
		"a feature without a sign":         {func(s *fleet.VMSpec) { s.CPU.Features = "aes" }, []string{"spec.cpu.features"}},
		"a feature twice":                  {func(s *fleet.VMSpec) { s.CPU.Features = "+aes -aes" }, []string{"spec.cpu.features"}},
		"a feature with markup":            {func(s *fleet.VMSpec) { s.CPU.Features = "+aes'/>" }, []string{"spec.cpu.features"}},
		"features with commas":             {func(s *fleet.VMSpec) { s.CPU.Features = "+aes,-vmx" }, []string{"spec.cpu.features"}},
		"too many features":                {func(s *fleet.VMSpec) { s.CPU.Features = strings.Repeat("+a ", 40) + "+b" }, []string{"spec.cpu.features"}},
		"shares":                           {func(s *fleet.VMSpec) { s.CPU.Shares = 2048 }, nil},
		"shares too low":                   {func(s *fleet.VMSpec) { s.CPU.Shares = 1 }, []string{"spec.cpu.shares"}},
		"shares too high":                  {func(s *fleet.VMSpec) { s.CPU.Shares = 262145 }, []string{"spec.cpu.shares"}},
		"half a processor":                 {func(s *fleet.VMSpec) { s.CPU.Limit = 50 }, nil},
		"two processors":                   {func(s *fleet.VMSpec) { s.CPU.Limit = 200 }, []string{"spec.cpu.limit"}},
		"negative limit":                   {func(s *fleet.VMSpec) { s.CPU.Limit = -1 }, []string{"spec.cpu.limit"}},
		"pinned":                           {func(s *fleet.VMSpec) { s.CPU.Pinned = "0-3,6,8-9" }, nil},
		"pinned with an exclusion":         {func(s *fleet.VMSpec) { s.CPU.Pinned = "0-3,^1" }, []string{"spec.cpu.pinned"}},
		"pinned to a word":                 {func(s *fleet.VMSpec) { s.CPU.Pinned = "all" }, []string{"spec.cpu.pinned"}},
		"nodes":                            {func(s *fleet.VMSpec) { s.Memory.Nodes = "0,1" }, nil},
		"a negative node":                  {func(s *fleet.VMSpec) { s.Memory.Nodes = "-1" }, []string{"spec.memory.nodes"}},
		"secure boot":                      {func(s *fleet.VMSpec) { s.Security.SecureBoot = true }, nil},
		"secure boot with BIOS":            {func(s *fleet.VMSpec) { s.Security.SecureBoot, s.Firmware = true, fleet.BIOS }, []string{"spec.security.secureBoot"}},
		"maximum vCPUs":                    {func(s *fleet.VMSpec) { s.CPU.Max = 16 }, nil},
		"maximum vCPUs below vCPUs":        {func(s *fleet.VMSpec) { s.CPU.Max = 4 }, []string{"spec.cpu.max"}},
		"maximum vCPUs too high":           {func(s *fleet.VMSpec) { s.CPU.Max = fleet.MaxCPUs + 1 }, []string{"spec.cpu.max"}},
		"a topology of the maximum":        {func(s *fleet.VMSpec) { s.CPU = fleet.VMCPU{Sockets: 2, Cores: 8, Max: 16} }, nil},
		"a topology of too few":            {func(s *fleet.VMSpec) { s.CPU = fleet.VMCPU{Sockets: 2, Cores: 4, Max: 16} }, []string{"spec.cpu.sockets"}},
		"maximum memory":                   {func(s *fleet.VMSpec) { s.Memory.MaxMiB = 1024 }, nil},
		"maximum memory below memory":      {func(s *fleet.VMSpec) { s.Memory.MaxMiB = 256 }, []string{"spec.memory.maxMiB"}},
		"negative maximum memory":          {func(s *fleet.VMSpec) { s.Memory.MaxMiB = -1 }, []string{"spec.memory.maxMiB"}},
		"duplicate boot order":             {func(s *fleet.VMSpec) { s.Disks[0].BootOrder, s.NICs[0].BootOrder = 1, 1 }, []string{"spec.nics[0].bootOrder"}},
		"CD-ROM with a disk's boot order":  {func(s *fleet.VMSpec) { s.Disks[0].BootOrder, s.Boot.CDROM = 2, 2 }, []string{"spec.boot.cdrom"}},
		"negative boot order":              {func(s *fleet.VMSpec) { s.Disks[0].BootOrder = -1 }, []string{"spec.disks[0].bootOrder"}},
		"boot order too high":              {func(s *fleet.VMSpec) { s.NICs[0].BootOrder = 65 }, []string{"spec.nics[0].bootOrder"}},
		"an unknown bus":                   {func(s *fleet.VMSpec) { s.Disks[0].Bus = "virtio" }, []string{"spec.disks[0].bus"}},
		"a bus with markup":                {func(s *fleet.VMSpec) { s.Disks[0].Bus = "scsi'/>" }, []string{"spec.disks[0].bus"}},
		"an unknown cache":                 {func(s *fleet.VMSpec) { s.Disks[0].Cache = "default" }, []string{"spec.disks[0].cache"}},
		"native with a cache":              {func(s *fleet.VMSpec) { s.Disks[0].IO, s.Disks[0].Cache = "native", "writeback" }, []string{"spec.disks[0].io"}},
		"native without a cache":           {func(s *fleet.VMSpec) { s.Disks[0].IO, s.Disks[0].Cache = "native", "none" }, nil},
		"an unknown I/O":                   {func(s *fleet.VMSpec) { s.Disks[0].IO = "aio" }, []string{"spec.disks[0].io"}},
		"an unknown discard":               {func(s *fleet.VMSpec) { s.Disks[0].Discard = "on" }, []string{"spec.disks[0].discard"}},
		"a serial number":                  {func(s *fleet.VMSpec) { s.Disks[0].Serial = "WD-123_a.b+c" }, nil},
		"a serial like an option":          {func(s *fleet.VMSpec) { s.Disks[0].Serial = "-rf" }, []string{"spec.disks[0].serial"}},
		"a serial with a comma":            {func(s *fleet.VMSpec) { s.Disks[0].Serial = "a,file=/etc/shadow" }, []string{"spec.disks[0].serial"}},
		"a serial with a NUL":              {func(s *fleet.VMSpec) { s.Disks[0].Serial = "a\x00b" }, []string{"spec.disks[0].serial"}},
		"a serial with direction override": {func(s *fleet.VMSpec) { s.Disks[0].Serial = "a\u202eb" }, []string{"spec.disks[0].serial"}},
		"a serial too long":                {func(s *fleet.VMSpec) { s.Disks[0].Serial = strings.Repeat("a", 21) }, []string{"spec.disks[0].serial"}},
		"a read-only SATA disk":            {func(s *fleet.VMSpec) { s.Disks[0].Bus, s.Disks[0].ReadOnly = "sata", true }, []string{"spec.disks[0].readOnly"}},
		"limits": {func(s *fleet.VMSpec) {
			s.Disks[0].Limits = fleet.DiskLimits{TotalIOPS: 100, BurstIOPS: 200, ReadKiB: 1, WriteKiB: 1, BurstSeconds: 5}
		}, nil},
		"total and separate limits":      {func(s *fleet.VMSpec) { s.Disks[0].Limits = fleet.DiskLimits{TotalIOPS: 100, ReadIOPS: 50} }, []string{"spec.disks[0].limits.totalIops"}},
		"total and separate byte limits": {func(s *fleet.VMSpec) { s.Disks[0].Limits = fleet.DiskLimits{TotalKiB: 100, WriteKiB: 50} }, []string{"spec.disks[0].limits.totalKiB"}},
		"a negative limit":               {func(s *fleet.VMSpec) { s.Disks[0].Limits.ReadIOPS = -5 }, []string{"spec.disks[0].limits.readIops"}},
		"limit too high":                 {func(s *fleet.VMSpec) { s.Disks[0].Limits.ReadKiB = fleet.MaxRate + 1 }, []string{"spec.disks[0].limits.readKiB"}},
		"a burst without limit":          {func(s *fleet.VMSpec) { s.Disks[0].Limits.BurstIOPS = 200 }, []string{"spec.disks[0].limits.burstIops"}},
		"a burst below the limit":        {func(s *fleet.VMSpec) { s.Disks[0].Limits = fleet.DiskLimits{TotalKiB: 100, BurstKiB: 100} }, []string{"spec.disks[0].limits.burstKiB"}},
		"a burst length without burst":   {func(s *fleet.VMSpec) { s.Disks[0].Limits.BurstSeconds = 5 }, []string{"spec.disks[0].limits.burstSeconds"}},
		"a burst of a day": {func(s *fleet.VMSpec) {
			s.Disks[0].Limits = fleet.DiskLimits{TotalKiB: 1, BurstKiB: 2, BurstSeconds: 86400}
		}, []string{"spec.disks[0].limits.burstSeconds"}},
		"an unknown model":    {func(s *fleet.VMSpec) { s.NICs[0].Model = "ne2k_pci" }, []string{"spec.nics[0].model"}},
		"queues":              {func(s *fleet.VMSpec) { s.NICs[0].Queues = 4 }, nil},
		"queues of an e1000e": {func(s *fleet.VMSpec) { s.NICs[0].Model, s.NICs[0].Queues = "e1000e", 4 }, []string{"spec.nics[0].queues"}},
		"negative queues":     {func(s *fleet.VMSpec) { s.NICs[0].Queues = -1 }, []string{"spec.nics[0].queues"}},
		"too many queues":     {func(s *fleet.VMSpec) { s.NICs[0].Queues = 65 }, []string{"spec.nics[0].queues"}},
		"a bandwidth": {func(s *fleet.VMSpec) {
			s.NICs[0].Limits = fleet.NICLimits{InKiB: 100, InPeakKiB: 200, OutKiB: 5, OutBurstKiB: 5}
		}, nil},
		"a peak without limit":      {func(s *fleet.VMSpec) { s.NICs[0].Limits.InPeakKiB = 5 }, []string{"spec.nics[0].limits.inPeakKiB"}},
		"a peak below the limit":    {func(s *fleet.VMSpec) { s.NICs[0].Limits = fleet.NICLimits{OutKiB: 100, OutPeakKiB: 50} }, []string{"spec.nics[0].limits.outPeakKiB"}},
		"a burst without NIC limit": {func(s *fleet.VMSpec) { s.NICs[0].Limits.OutBurstKiB = 5 }, []string{"spec.nics[0].limits.outBurstKiB"}},
		"a negative bandwidth":      {func(s *fleet.VMSpec) { s.NICs[0].Limits.InKiB = -1 }, []string{"spec.nics[0].limits.inKiB"}},

		"a memory minimum": {func(s *fleet.VMSpec) { s.Memory.MinMiB, s.Memory.BalloonMiB = 256, 256 }, nil},
		"memory minimum with USB device": {func(s *fleet.VMSpec) {
			s.Memory.MinMiB, s.HostDevices = 256, []fleet.VMHostDevice{{Device: "usb/046d:c52b"}}
		}, nil},
		"minimum above memory":       {func(s *fleet.VMSpec) { s.Memory.MinMiB = 513 }, []string{"spec.memory.minMiB"}},
		"minimum above balloon":      {func(s *fleet.VMSpec) { s.Memory.MinMiB, s.Memory.BalloonMiB = 257, 256 }, []string{"spec.memory.minMiB"}},
		"negative minimum":           {func(s *fleet.VMSpec) { s.Memory.MinMiB = -1 }, []string{"spec.memory.minMiB"}},
		"minimum too low":            {func(s *fleet.VMSpec) { s.Memory.MinMiB = 127 }, []string{"spec.memory.minMiB"}},
		"minimum without balloon":    {func(s *fleet.VMSpec) { s.Memory.MinMiB, s.Devices.Balloon = 256, "none" }, []string{"spec.memory.minMiB"}},
		"minimum with locked memory": {func(s *fleet.VMSpec) { s.Memory.MinMiB, s.Memory.Locked = 256, true }, []string{"spec.memory.minMiB"}},
		"minimum with huge pages":    {func(s *fleet.VMSpec) { s.Memory.MinMiB, s.Memory.HugePageKiB = 256, 2048 }, []string{"spec.memory.minMiB"}},
		"minimum with PCI device": {func(s *fleet.VMSpec) {
			s.Memory.MinMiB, s.HostDevices = 256, []fleet.VMHostDevice{{HostID: fleet.NewID[fleet.HostID](), Device: "pci/0000:41:00.0"}}
		}, []string{"spec.memory.minMiB"}},
		"a reservation":            {func(s *fleet.VMSpec) { s.CPU.Reserved, s.CPU.Limit = 50, 50 }, nil},
		"reservation above limit":  {func(s *fleet.VMSpec) { s.CPU.Reserved, s.CPU.Limit = 51, 50 }, []string{"spec.cpu.reserved"}},
		"two processors reserved":  {func(s *fleet.VMSpec) { s.CPU.Reserved = 101 }, []string{"spec.cpu.reserved"}},
		"negative reservation":     {func(s *fleet.VMSpec) { s.CPU.Reserved = -1 }, []string{"spec.cpu.reserved"}},
		"an HA priority":           {func(s *fleet.VMSpec) { s.Policy.HAPriority = "low" }, nil},
		"an HA priority by number": {func(s *fleet.VMSpec) { s.Policy.HAPriority = "1" }, []string{"spec.policy.haPriority"}},
		"post-copy without migration": {func(s *fleet.VMSpec) {
			s.Migration = fleet.VMMigration{Stays: true, PostCopy: true, DowntimeMs: 10000}
		}, nil},
		"a negative downtime":      {func(s *fleet.VMSpec) { s.Migration.DowntimeMs = -1 }, []string{"spec.migration.downtimeMs"}},
		"downtime too long":        {func(s *fleet.VMSpec) { s.Migration.DowntimeMs = 10001 }, []string{"spec.migration.downtimeMs"}},
		"tolerations":              {func(s *fleet.VMSpec) { s.Placement.Tolerations = "gpu=a100 maintenance *" }, nil},
		"tolerations with commas":  {func(s *fleet.VMSpec) { s.Placement.Tolerations = "gpu,disk" }, []string{"spec.placement.tolerations"}},
		"a toleration without key": {func(s *fleet.VMSpec) { s.Placement.Tolerations = "=a100" }, []string{"spec.placement.tolerations"}},
		"a toleration with markup": {func(s *fleet.VMSpec) { s.Placement.Tolerations = "gpu=]]>" }, []string{"spec.placement.tolerations"}},
		"too many tolerations":     {func(s *fleet.VMSpec) { s.Placement.Tolerations = strings.Repeat("a ", 16) + "b" }, []string{"spec.placement.tolerations"}},
	} {
		spec := fleet.VMSpec{
			Power: fleet.Running, CPUs: 8, MemoryMiB: 512, Firmware: fleet.UEFI,
			Disks: []fleet.Disk{{PoolID: "p", SizeBytes: 1 << 30}}, NICs: []fleet.NIC{{Network: "default"}},
		}
		c.change(&spec)
		if got := fieldsWithErrors(func(checks *fleet.Checks) { spec.Check(checks, "spec") }); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

// Every optional field can be compared, edited, and converted to JSON and back.
func TestOptionalVMFieldsRoundTrip(t *testing.T) {
	t.Parallel()
	full := vmspec.WithAllFields()
	var parsed fleet.VMSpec
	for _, f := range fleet.OptionalFields() {
		if f.Default(full) || !f.Default(fleet.VMSpec{}) {
			t.Errorf("%s: wrong default", f.Name)
		}
		if f.Same(full, fleet.VMSpec{}) || f.Words(full) == f.Words(fleet.VMSpec{}) {
			t.Errorf("%s: set and unset are the same: %q and %q", f.Name, f.Words(full), f.Words(fleet.VMSpec{}))
		}
		if alone := slices.Contains([]string{"firstBoot", "rules", "health"}, f.Name); !alone && f.Input.Label == "" || alone != !slices.Contains(fleet.VMSections, f.Input.Section) {
			t.Errorf("%s: no form input: %+v", f.Name, f.Input)
		}
		text, err := json.Marshal(f.Value(full))
		if err != nil || f.Decode(&parsed, text) != nil || f.Decode(&parsed, []byte(`{"x":1}`)) == nil {
			t.Errorf("%s: value %s is refused, or an invalid one accepted", f.Name, text)
		}
		c := full.Diff(fleet.VMSpec{}, true)
		if !slices.ContainsFunc(c, func(c fleet.Change) bool {
			at, _, _ := strings.Cut(c.Field, "[")
			return at == "spec."+f.Name && c.When == f.TakesEffect && (f.TakesEffect == fleet.WhenNextBoot || f.TakesEffect == fleet.WhenNow || f.TakesEffect == fleet.WhenNever && f.FixedReason != "")
		}) {
			t.Errorf("%s: an edit of it is %+v", f.Name, c)
		}
	}
	if got, want := parsed.Diff(full, false), 0; len(got) != want {
		t.Errorf("the parsed spec differs in %+v", got)
	}
}
