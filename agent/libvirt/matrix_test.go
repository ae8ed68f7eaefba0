//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// qemuObservation is an observation of a field in a running QEMU. query is the command, and want is the expected answer
// for [conformance.SpecWithAllFields] and its variants. An empty query reads the process's arguments. A query in braces
// is a QMP command; other queries are HMP commands. The prefix "direct:" queries the guest that boots a kernel of the
// host, and "old:" the guest on a pc machine. A key may have the form field=value.
type qemuObservation struct{ query, want string }

// observedFields lists the fields whose effect the test observes in a running QEMU. Other fields are proved only by a
// definition that a real libvirt has validated and returned; the manual lists these fields.
var observedFields = map[string]qemuObservation{
	"disks":                  {`{"execute":"query-block"}`, `disk\.qcow2`},
	"nics":                   {"info network", `52:54:00:0c:00:01`},
	"cpus":                   {`{"execute":"query-cpus-fast"}`, `(?s)(thread-id.*){4}`},
	"memoryMiB":              {`{"execute":"query-memory-size-summary"}`, `"base-memory":\s*268435456`},
	"firmware":               {`{"execute":"query-named-block-nodes"}`, `OVMF_CODE`},
	"cpu.model":              {`{"execute":"qom-list","arguments":{"path":"/machine/unattached"}}`, `child<qemu64-x86_64-cpu>`},
	"cpu.features":           {"", `-cpu qemu64,\S*aes=on,svm=off`},
	"cpu.sockets":            {`{"execute":"query-hotpluggable-cpus"}`, `"socket-id":\s*1`},
	"cpu.cores":              {`{"execute":"query-hotpluggable-cpus"}`, `"core-id":\s*1`},
	"cpu.threads":            {`{"execute":"query-hotpluggable-cpus"}`, `"thread-id":\s*1`},
	"cpu.max":                {`{"execute":"query-hotpluggable-cpus"}`, `(?s)(vcpus-count.*){8}`},
	"cpu.pinned":             {"pinned", `^0( 0)*$`},
	"memory.shared":          {`{"execute":"query-memdev"}`, `"share":\s*true`},
	"memory.balloonMiB":      {"direct:balloon", `actual=192`},
	"memory.nodes":           {`{"execute":"query-memdev"}`, `"host-nodes":\s*\[\s*0\s*\]`},
	"numa":                   {"info numa", `(?s)2 nodes.*node 0 cpus: 0 1\s.*node 1 cpus: 2 3\s.*node 1 size: 128 MB`},
	"memory.maxMiB":          {"", `maxmem=1048576k`},
	"boot.machine":           {"old:info qtree", `dev: i440FX-pcihost`},
	"boot.menu":              {"", `-boot menu=on`},
	"boot.cdrom":             {"", `"driver":"(scsi|ide)-cd"[^}]*"bootindex":3`},
	"boot.kernel":            {"direct:guest", `console=ttyS0`},
	"boot.initrd":            {"direct:guest", `console=ttyS0`},
	"boot.cmdline":           {"direct:guest", `quantix=matrix`},
	"shares":                 {"direct:info qtree", `(?s)dev: vhost-user-fs-pci.*tag = "src"`},
	"drives":                 {"", `(?s)"bootindex":4.*isa-fdc|isa-fdc.*"bootindex":4`},
	"display.spice":          {`{"execute":"query-spice"}`, `"enabled":\s*true`},
	"display.usbRedirection": {"info qtree", `(?s)(dev: usb-redir.*){2}`},
	"devices.balloon":        {"", `"driver":"virtio-balloon-pci"[^}]*"free-page-reporting":true`},
	"devices.serials":        {"info chardev", `(?s)serial-1:.*serial-2:`},
	"devices.parallel":       {"info chardev", `parallel: filename=pty`},
	"display.video":          {"info qtree", `dev: virtio-vga`},
	"display.heads":          {"info qtree", `max_outputs = 2`},
	"display.keyboard":       {"", `-k de-ch`},
	"display.pointer":        {"info mice", `(?i)mouse`},
	"display.sound":          {"info qtree", `dev: ich9-intel-hda`},
	"security.tpm":           {`{"execute":"query-tpm"}`, `tpm-(crb|tis)`},
	"security.secureBoot":    {"info qtree", `(?s)dev: cfi\.pflash01.*?secure = true`},
	"devices.watchdog":       {"info qtree", `dev: i6300esb`},
	"devices.watchdogAction": {"", `-action watchdog=pause|-watchdog-action pause`},
	"devices.rngRate":        {"info qtree", `max-bytes = 4096`},
	"devices.guestAgent":     {"channels", `^$`},

	"disk.bus":                 {"info qtree", `dev: scsi-hd`},
	"disk.bus=ide":             {"old:info qtree", `dev: ide-hd`},
	"disk.format":              {`old:{"execute":"query-block"}`, `"filename":\s*"[^"]*/plain\.raw",\s*"format":\s*"raw"`},
	"disk.cache":               {`{"execute":"query-block"}`, `"writeback":\s*true`},
	"disk.io":                  {"", `"aio":"threads"`},
	"disk.discard":             {"", `"discard":"ignore"`},
	"disk.bootOrder":           {"", `"driver":"scsi-hd"[^}]*"bootindex":2`},
	"disk.serial":              {"info qtree", `serial = "QX-1"`},
	"disk.readOnly":            {`{"execute":"query-block"}`, `"ro":\s*true`},
	"disk.shareable":           {"", `"driver":"virtio-blk-pci"[^}]*"share-rw":true`},
	"disk.encryption":          {`{"execute":"query-block"}`, `"format":\s*"luks"`},
	"disk.limits.totalIops":    {`{"execute":"query-block"}`, `"iops":\s*500\b`},
	"disk.limits.readIops":     {`{"execute":"query-block"}`, `"iops_rd":\s*101\b`},
	"disk.limits.writeIops":    {`{"execute":"query-block"}`, `"iops_wr":\s*102\b`},
	"disk.limits.totalKiB":     {`{"execute":"query-block"}`, `"bps":\s*4194304\b`},
	"disk.limits.burstKiB":     {`{"execute":"query-block"}`, `"bps_max":\s*8388608\b`},
	"disk.limits.readKiB":      {`{"execute":"query-block"}`, `"bps_rd":\s*2097152`},
	"disk.limits.writeKiB":     {`{"execute":"query-block"}`, `"bps_wr":\s*1048576`},
	"disk.limits.burstIops":    {`{"execute":"query-block"}`, `"iops_max":\s*1000`},
	"disk.limits.burstSeconds": {`{"execute":"query-block"}`, `"iops_max_length":\s*5`},
	"nic.model":                {"info qtree", `dev: e1000e`},
	"nic.bootOrder":            {"", `"driver":"e1000e"[^}]*"bootindex":1`},
	"nic.linkDown":             {"link", `down`},
}

// testedElsewhere lists the fields that the agent implements without QEMU and the fields that another test checks in
// the guest, each with that test.
var testedElsewhere = map[string]string{
	"iso":                "the conformance suite: a running guest grows",
	"policy.autostart":   "agent: VMs start in their order after a host boot",
	"policy.startOrder":  "agent: VMs start in their order after a host boot",
	"policy.startDelay":  "agent: VMs start in their order after a host boot",
	"policy.restart":     "agent: a guest that stops by itself",
	"policy.stopOrder":   "control: bulk shutdown in order",
	"policy.stopDelay":   "control: bulk shutdown in order",
	"policy.guestExec":   "the conformance suite: programs in a guest",
	"rules":              "control: placement rules restrict hosts",
	"health":             "agent: failed health checks restart a guest",
	"migration.stays":    "control: a VM with migration.stays is not migrated",
	"migration.limitMiB": "control: a migration respects the VM's bandwidth limit",
	"firstBoot":          "e2e: the life of a Debian VM",

	"cpu.reserved":          "control: a reserved processor belongs to one VM",
	"placement.overcommit":  "control: an explicit overcommit is kept",
	"memory.minMiB":         "a balloon shrinks to the memory minimum",
	"placement.tolerations": "control: a taint keeps VMs from a host",
	"policy.haPriority":     "control: fields without effect yet are stored and returned",
	"migration.postCopy":    "control: fields without effect yet are stored and returned",
	"migration.downtimeMs":  "control: fields without effect yet are stored and returned",
}

// undefinableFields lists the fields that libvirt accepts only on processors with a feature that test machines lack,
// each with its test.
var undefinableFields = map[string]string{"security.confidential": "tests of its definition and recorded answers"}

// Each field of a VM, its disks and its NICs is created, defined, started and observed in the running QEMU. The test
// prints how each field is proved.
func TestEveryVMFieldTakesEffectInQEMU(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.CPUs, vm.Spec.Disks = 4, []fleet.Disk{conformance.DiskWithAllFields(fleet.Disk{PoolID: f.pool.ID, Volume: "disk.qcow2", SizeBytes: 8 << 20})}
	// The second disk has the limits that cannot be combined with the limits of the first disk.
	second := fleet.Disk{PoolID: f.pool.ID, Volume: "second.qcow2", SizeBytes: 1 << 20}
	second.Limits = fleet.DiskLimits{ReadIOPS: 101, WriteIOPS: 102, TotalKiB: 4096, BurstKiB: 8192}
	vm.Spec.Disks = append(vm.Spec.Disks, second)
	f.requireNoError(os.WriteFile(filepath.Join(f.pool.Spec.Path, "shared.raw"), make([]byte, 1<<20), 0o600))
	vm.Spec.Disks = append(vm.Spec.Disks, fleet.Disk{PoolID: f.pool.ID, Volume: "shared.raw", Existing: true, Shareable: true},
		fleet.Disk{PoolID: f.pool.ID, Volume: "secret.qcow2", SizeBytes: 1 << 20, Encryption: "luks"})
	vm.Spec = conformance.SpecWithAllFields(vm.Spec)
	vm.Spec.CPU.Sockets, vm.Spec.CPU.Cores, vm.Spec.CPU.Threads = 2, 2, 2
	vm.Spec.NICs = []fleet.NIC{conformance.NICWithAllFields(fleet.NIC{Network: "default", MAC: "52:54:00:0c:00:01"})}
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	id := string(vm.ID)
	text, err := os.ReadFile("/run/libvirt/qemu/" + vm.Name + ".pid")
	f.requireNoError(err)
	pid := strings.TrimSpace(string(text))
	direct := startDirectKernelGuest(f)
	others := map[string]string{"direct": string(direct.vm.ID), "old": startPCMachineGuest(f)}
	answers := map[string]func() string{
		"direct:balloon": func() (outputs string) {
			waitFor(t, "the guest gives memory back", func() bool {
				outputs = virsh(t, "qemu-monitor-command", string(direct.vm.ID), "--hmp", "info balloon")
				return strings.Contains(outputs, "actual=192")
			})
			return outputs
		},
		"direct:guest": func() string { return direct.openGuestShell().run("cat /proc/cmdline; echo") },
		"": func() string {
			args, err := os.ReadFile("/proc/" + pid + "/cmdline")
			f.requireNoError(err)
			return strings.ReplaceAll(string(args), "\x00", " ")
		},
		"pinned": func() string {
			var at []string
			tasks, err := filepath.Glob("/proc/" + pid + "/task/*")
			f.requireNoError(err)
			for _, task := range tasks {
				name, _ := os.ReadFile(task + "/comm")
				if status, err := os.ReadFile(task + "/status"); err == nil && strings.HasPrefix(string(name), "CPU ") {
					_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
					at = append(at, strings.Fields(list)[0])
				}
			}
			return strings.Join(at, " ")
		},
		"channels": func() string {
			return strings.Join(regexp.MustCompile(`org\.qemu\.guest_agent`).FindAllString(virsh(t, "qemu-monitor-command", id, "--hmp", "info qtree"), -1), " ")
		},
		"link": func() string { return virsh(t, "domif-getlink", id, vm.Spec.NICs[0].MAC) },
	}
	outputs := map[string]string{}
	query := func(ask string) string {
		if _, known := outputs[ask]; !known {
			of, question := id, ask
			if name, rest, _ := strings.Cut(ask, ":"); others[name] != "" {
				of, question = others[name], rest
			}
			switch own := answers[ask]; {
			case own != nil:
				outputs[ask] = own()
			case strings.HasPrefix(question, "{"):
				outputs[ask] = virsh(t, "qemu-monitor-command", of, "--pretty", question)
			default:
				outputs[ask] = virsh(t, "qemu-monitor-command", of, "--hmp", question)
			}
		}
		return outputs[ask]
	}
	names := []string{}
	for _, x := range fleet.VMFields {
		names = append(names, x.Name)
	}
	for _, x := range fleet.DiskFields {
		names = append(names, "disk."+x.Name)
	}
	names = append(names, "disk.bus=ide")
	for _, x := range fleet.NICFields {
		names = append(names, "nic."+x.Name)
	}
	var byXML []string
	for _, name := range names {
		if where, ok := testedElsewhere[name]; ok {
			fmt.Printf("%-24s proved by %s\n", name, where)
			continue
		}
		if where, ok := undefinableFields[name]; ok {
			fmt.Printf("%-24s by %s\n", name, where)
			continue
		}
		l, ok := observedFields[name]
		if !ok {
			byXML = append(byXML, name)
			continue
		}
		if text := query(l.query); !regexp.MustCompile(l.want).MatchString(text) {
			t.Errorf("%s: QEMU does not say %q: %.4000s", name, l.want, text)
			continue
		}
		fmt.Printf("%-24s proved in QEMU\n", name)
	}
	for name := range observedFields {
		if _, twice := testedElsewhere[name]; twice {
			t.Errorf("%s is proved here and elsewhere", name)
		}
		if !slices.Contains(names, name) {
			t.Errorf("%s is no field", name)
		}
	}
	for _, name := range byXML {
		fmt.Printf("%-24s only by its definition\n", name)
	}
	const chapter = "static/docs/not-run-on-hardware.md"
	manual, err := os.ReadFile("../../" + chapter)
	f.requireNoError(err)
	if list := "`" + strings.Join(byXML, "`, `") + "`"; !strings.Contains(strings.Join(strings.Fields(string(manual)), " "), list) {
		t.Errorf("%s does not list the fields proved only by their definition: %s", chapter, list)
	}
}

// startDirectKernelGuest starts a guest with a kernel from the host and a shared folder.
func startDirectKernelGuest(f fixture) *snapper {
	t := f.t
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	f.requireNoError(err)
	s := &snapper{fixture: f, vm: f.newVM()}
	in := func(file string) *fleet.Volref {
		run(t, "cp", file, filepath.Join(f.pool.Spec.Path, filepath.Base(file)))
		return &fleet.Volref{PoolID: f.pool.ID, Volume: filepath.Base(file)}
	}
	f.requireNoError(os.Mkdir(filepath.Join(f.pool.Spec.Path, "src"), 0o755))
	s.vm.Spec.MemoryMiB, s.vm.Spec.Memory.Shared, s.vm.Spec.Memory.BalloonMiB = 256, true, 192
	s.vm.Spec.Boot = fleet.VMBoot{Kernel: in(guest.Kernel), Initrd: in(guest.Initrd), Cmdline: "console=ttyS0 quiet no_timer_check quantix=matrix"}
	s.vm.Spec.Shares = []fleet.VMShare{{Tag: "src", Folder: fleet.Volref{PoolID: f.pool.ID, Volume: "src"}}}
	s.apply(s.vm)
	f.requireNoError(f.StartVM(t.Context(), s.vm.ID))
	return s
}

// startPCMachineGuest starts a guest on a pc machine with a raw IDE disk.
func startPCMachineGuest(f fixture) string {
	vm := f.newVM()
	vm.Spec.Boot.Machine = fleet.MachinePC
	vm.Spec.Disks = []fleet.Disk{{PoolID: f.pool.ID, Volume: "plain.raw", SizeBytes: 1 << 20, Bus: "ide", Format: fleet.Raw}}
	f.apply(vm)
	f.requireNoError(f.StartVM(f.t.Context(), vm.ID))
	return string(vm.ID)
}
