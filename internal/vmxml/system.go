package vmxml

import (
	"cmp"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

const (
	chooseKernel = "A file of the host. Choose a kernel or an initial RAM disk in a pool, under Boot."
	intoHost     = "This reaches into the host."
)

func readOS(r *conversion, e *element) error {
	if e.attr("firmware") == "efi" {
		r.Spec.Firmware = fleet.UEFI
	}
	return r.readChildren(e, map[string]elementRule{
		"type": {read: readMachine}, "loader": {read: readLoader}, "firmware": {read: readFirmware},
		"bootmenu": {read: func(r *conversion, e *element) error { r.Spec.Boot.Menu = e.attr("enable") == "yes"; return nil }},
		"boot":     {many: true, read: func(r *conversion, e *element) error { r.firmwareOrder = append(r.firmwareOrder, e); return nil }},
		"nvram":    droppedRule("The firmware's variables are not imported: the VM starts with new ones."),
		"kernel":   refusedRule(chooseKernel), "initrd": refusedRule(chooseKernel), "cmdline": refusedRule("This belongs to a kernel of the host. Give the command line with the kernel, under Boot."),
		"dtb": refusedRule(intoHost), "acpi": refusedRule(intoHost), "smbios": droppedRule("The SMBIOS texts that the guest reads cannot be chosen here."), "bios": droppedRule("The timeouts and the output of the firmware cannot be chosen here."),
	})
}

func readMachine(r *conversion, e *element) error {
	if kind := strings.TrimSpace(e.text); kind != "hvm" {
		return lineError(e.line, "a guest of type %q cannot be made here.", shortenForError(kind))
	}
	if arch := e.attr("arch"); arch != "" && arch != "x86_64" && arch != "aarch64" {
		r.addNote(e, Left, "The VM has the architecture of its host.")
	}
	switch m := e.attr("machine"); {
	case m == "" || strings.Contains(m, "q35"):
	case m == fleet.MachinePC || strings.HasPrefix(m, fleet.MachinePC+"-"):
		r.Spec.Boot.Machine = fleet.MachinePC
	default:
		r.addNote(e, Left, "A VM here has the machine q35 or pc, not "+shortenForError(m)+".")
	}
	return nil
}

func readLoader(r *conversion, e *element) error {
	if e.attr("type") == "pflash" {
		r.Spec.Firmware = fleet.UEFI
	}
	r.Spec.Security.SecureBoot = r.Spec.Security.SecureBoot || e.attr("secure") == "yes"
	if path := strings.TrimSpace(e.text); path != "" {
		r.addNote(e, Usual, "The host chooses the firmware's file.")
	}
	return nil
}

func readFirmware(r *conversion, e *element) error {
	for _, in := range e.children {
		if in.name == "feature" && in.attr("name") == "secure-boot" {
			r.Spec.Security.SecureBoot = in.attr("enabled") == "yes"
		}
	}
	return nil
}

func readMemoryBacking(r *conversion, e *element) error {
	return r.readChildren(e, map[string]elementRule{
		"locked": {read: func(r *conversion, _ *element) error { r.Spec.Memory.Locked = true; return nil }},
		"access": {read: func(r *conversion, e *element) error { r.Spec.Memory.Shared = e.attr("mode") == "shared"; return nil }},
		"source": commonRule(hostChoice), "allocation": commonRule(hostChoice), "nosharepages": droppedRule("The host chooses whether it merges equal pages."),
		"discard": droppedRule("The host chooses whether it discards the memory's file at the end."),
		"hugepages": {read: func(r *conversion, e *element) error {
			page := e.firstChild("page")
			if page == nil {
				r.addNote(e, Left, "Huge pages need a size: choose one.")
				return nil
			}
			n, err := parseKiB(page, page.attr("size"), page.attr("unit"))
			if err != nil {
				return err
			}
			if n > 1<<24 {
				return lineError(page.line, "there are no pages of this size.")
			}
			if len(e.children) > 1 || page.hasAttr("nodeset") {
				r.addNote(e, Left, "All memory has pages of one size here: the first size given.")
			}
			r.setField(page, "memory.hugePageKiB", n)
			return nil
		}},
	})
}

// defaultPeriod is libvirt's default period for CPU quotas, in microseconds.
const defaultPeriod = 100_000

// readCPUTune reads the CPU shares and the quota. It reads the pinning only if all vCPUs have the same pinning.
func readCPUTune(r *conversion, e *element) error {
	pins := map[string]bool{}
	var last *element
	for _, in := range e.children {
		switch in.name {
		case "shares":
			if err := r.setNumberField(in, "cpu.shares", in.text); err != nil {
				return err
			}
		case "period":
		case "quota":
			if err := readQuota(r, e, in); err != nil {
				return err
			}
		case "vcpupin":
			pins[fleet.NormalizeNumberSet(strings.TrimSpace(in.attr("cpuset")))], last = true, in
		case "emulatorpin", "iothreadpin", "emulatorsched", "iothreadsched", "emulator_period", "emulator_quota", "iothread_period", "iothread_quota":
			r.addNote(in, Left, "Only vCPUs can be limited and pinned here, not QEMU's other threads.")
		default:
			r.addNote(in, Left, "Only shares, a limit for each vCPU, and one set of processors for all vCPUs can be chosen here.")
		}
	}
	switch {
	case len(pins) > 1:
		r.addNote(last, Left, "All vCPUs are pinned to the same processors here. Choose them under CPU.")
	case last != nil:
		r.setField(last, "cpu.pinned", strings.TrimSpace(last.attr("cpuset")))
	}
	return nil
}

func readQuota(r *conversion, tune, e *element) error {
	quota, err := strconv.ParseInt(strings.TrimSpace(e.text), 10, 62)
	if err != nil {
		return lineError(e.line, "%q in <quota> is no whole number.", shortenForError(e.text))
	}
	period := int64(defaultPeriod)
	if p := tune.firstChild("period"); p != nil {
		n, err := parseNumber(p, p.text, 1<<30)
		if err != nil {
			return err
		}
		period = cmp.Or(int64(n), period)
	}
	if percent := quota / max(period/100, 1); quota > 0 && percent < 100 { // a higher quota does not limit a single vCPU
		r.setField(e, "cpu.limit", max(percent, 1))
	}
	return nil
}

// readNUMATune may run before readNUMANodes, so resolveSettings combines the two results later.
func readNUMATune(r *conversion, e *element) error {
	const strict = "The memory comes only from the named nodes of the host: another mode cannot be chosen here."
	for _, in := range e.children {
		nodes := strings.TrimSpace(in.attr("nodeset"))
		switch {
		case in.name != "memory" && in.name != "memnode":
			r.addNote(in, Left, "A VM here has no such setting.")
		case cmp.Or(in.attr("mode"), "strict") != "strict" || nodes == "":
			r.addNote(in, Left, strict)
		case in.name == "memory":
			r.setField(in, "memory.nodes", nodes)
		default:
			node, err := parseNumber(in, in.attr("cellid"), fleet.MaxNUMANodes-1)
			if err != nil {
				return err
			}
			r.numaNodes[node] = in
		}
	}
	return nil
}
