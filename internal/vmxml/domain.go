package vmxml

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

var domainTable map[string]elementRule

func init() { // an init function, because the table's entries refer to a reader that uses the table
	domainTable = map[string]elementRule{
		"name":        {read: func(r *conversion, e *element) error { r.Name = strings.TrimSpace(e.text); return nil }},
		"description": {read: func(r *conversion, e *element) error { r.Description = strings.TrimSpace(e.text); return nil }},
		"title":       {read: readTitle}, "memory": {read: readMemory}, "vcpu": {read: readCPUs}, "cpu": {read: readCPU}, "os": {read: readOS}, "memoryBacking": {read: readMemoryBacking},
		"devices":       {read: func(r *conversion, e *element) error { return r.readChildren(e, deviceTable) }},
		"currentMemory": {read: readCurrentMemory}, "maxMemory": {read: readMaxMemory}, "cputune": {read: readCPUTune}, "numatune": {read: readNUMATune},
		"features": {read: readFeatures}, "clock": {read: readClock}, "pm": {read: readPowerManagement},
		"on_poweroff": lifecycleAction("a guest that powers off stays off", "destroy", map[string]string{"restart": "always"}), "on_crash": lifecycleAction("a guest that crashes stays off or is restarted", "destroy", map[string]string{"restart": "onFailure"}),
		"on_reboot": lifecycleAction("a guest that reboots is not powered off", "restart", nil), "uuid": commonRule("A new VM gets a new UUID."), "metadata": droppedRule("The metadata of other programs is not imported."),
		"resource": commonRule(hostChoice), "seclabel": commonRule(hostChoice), "genid": droppedRule("A new VM gets no generation id."),
		"launchSecurity": {read: readLaunchSecurity}, "iothreads": droppedRule("IOThreads cannot be chosen here: the disks' I/O runs in QEMU's main thread."),
		"iothreadids": droppedRule("IOThreads cannot be chosen here."), "defaultiothread": droppedRule("IOThreads cannot be chosen here."),
		"blkiotune": droppedRule("I/O limits are set for each disk, not for the whole VM."), "sysinfo": droppedRule("The SMBIOS texts that the guest reads cannot be chosen here."),
		"bootloader": refusedRule("A program of the host."),
	}
}

func readTitle(r *conversion, e *element) error {
	r.Description = cmp.Or(r.Description, strings.TrimSpace(e.text))
	return nil
}

func readMemory(r *conversion, e *element) (err error) {
	r.Spec.MemoryMiB, err = r.parseMiB(e)
	return err
}

// readCurrentMemory may run before readMemory, so resolveSettings compares the two values later.
func readCurrentMemory(r *conversion, e *element) error {
	n, err := parseKiB(e, e.text, e.attr("unit"))
	if err != nil {
		return err
	}
	if n>>10 > 0 {
		r.setField(e, "memory.balloonMiB", n>>10)
	}
	return nil
}

func readMaxMemory(r *conversion, e *element) error {
	n, err := r.parseMiB(e)
	if err != nil {
		return err
	}
	r.setField(e, "memory.maxMiB", n)
	return nil
}

func readCPUs(r *conversion, e *element) (err error) {
	if r.Spec.CPUs, err = parseNumber(e, e.text, fleet.MaxCPUs); err != nil {
		return err
	}
	if e.hasAttr("current") {
		now, err := parseNumber(e, e.attr("current"), r.Spec.CPUs)
		if err != nil {
			return err
		}
		if now > 0 && now < r.Spec.CPUs {
			r.Spec.CPU.Max, r.Spec.CPUs = r.Spec.CPUs, now
		}
	}
	if e.hasAttr("cpuset") {
		r.setField(e, "cpu.pinned", e.attr("cpuset"))
	}
	return nil
}

func readCPU(r *conversion, e *element) error {
	model := e.firstChild("model")
	switch mode := e.attr("mode"); {
	case mode == "host-passthrough" || mode == "host-model" || mode == "maximum":
		r.setField(e, "cpu.model", mode)
	case model != nil:
		r.setField(model, "cpu.model", strings.TrimSpace(model.text))
	}
	var features []string
	for _, in := range e.children {
		switch in.name {
		case "model", "vendor":
		case "topology":
			if err := readTopology(r, in); err != nil {
				return err
			}
		case "numa":
			if err := readNUMANodes(r, in); err != nil {
				return err
			}
		case "feature":
			switch name := shortenForError(in.attr("name")); in.attr("policy") {
			case "", "require", "force":
				features = append(features, "+"+name)
			case "disable", "forbid":
				features = append(features, "-"+name)
			default:
				r.addNote(in, Left, "A CPU feature can be required or disabled here; the policy "+shortenForError(in.attr("policy"))+" does neither.")
			}
		default:
			r.addNote(in, Left, "Only the model, features, topology and NUMA nodes of a processor can be chosen here.")
		}
	}
	if len(features) > 0 {
		r.setField(e, "cpu.features", strings.Join(features, " "))
	}
	return nil
}

func readTopology(r *conversion, e *element) error {
	each := map[string]int{"sockets": 1, "dies": 1, "clusters": 1, "cores": 1, "threads": 1}
	for name := range each {
		if e.hasAttr(name) {
			n, err := parseNumber(e, e.attr(name), fleet.MaxCPUs)
			if err != nil {
				return err
			}
			each[name] = max(n, 1)
		}
	}
	if each["dies"] > 1 || each["clusters"] > 1 {
		r.addNote(e, Left, "Dies and clusters cannot be chosen here: their cores count as cores of the socket.")
	}
	if each["dies"]*each["clusters"]*each["cores"] > fleet.MaxCPUs {
		return lineError(e.line, "these are more cores than a VM can have.")
	}
	r.Spec.CPU.Sockets, r.Spec.CPU.Cores, r.Spec.CPU.Threads = each["sockets"], each["dies"]*each["clusters"]*each["cores"], each["threads"]
	return nil
}

// readNUMANodes reads guest NUMA nodes. A single node contains all vCPUs and memory, and needs no setting.
func readNUMANodes(r *conversion, e *element) error {
	var nodes []fleet.VMNUMANode
	for _, in := range e.children {
		if in.name != "cell" {
			r.addNote(in, Left, "Only the vCPUs, memory and host nodes of a NUMA node can be chosen here.")
			continue
		}
		n, err := parseKiB(in, in.attr("memory"), in.attr("unit"))
		if err != nil {
			return err
		}
		if n>>10 > fleet.MaxMemoryMiB || len(nodes) == fleet.MaxNUMANodes {
			return lineError(in.line, "these are more NUMA nodes, or larger ones, than a VM can have.")
		}
		if len(in.children) > 0 || in.hasAttr("memAccess") || in.hasAttr("discard") {
			r.addNote(in, Left, "Distances, caches and access of single NUMA nodes cannot be chosen here.")
		}
		nodes = append(nodes, fleet.VMNUMANode{CPUs: shortenForError(in.attr("cpus")), MemoryMiB: int(n >> 10)})
	}
	if len(nodes) == 1 {
		r.addNote(e, Usual, "A single NUMA node contains the whole VM and needs no setting.")
		return nil
	}
	r.Spec.NUMA = nodes
	return nil
}

func readFeatures(r *conversion, e *element) error {
	return r.readChildren(e, map[string]elementRule{
		"acpi": commonRule("Every VM here has it."), "apic": commonRule("Every VM here has it."), "pae": commonRule("Every VM here has it."), "vmport": commonRule(hostChoice), "smm": commonRule("Secure boot includes this."),
		"hyperv": droppedRule("Hyper-V enlightenments cannot be chosen here."), "kvm": droppedRule("The KVM features that a guest sees cannot be chosen here."),
	})
}

func readClock(r *conversion, e *element) error {
	if offset := cmp.Or(e.attr("offset"), "utc"); offset != "utc" {
		r.addNote(e, Left, "A VM's clock is in UTC here, not "+shortenForError(offset)+": set the time zone in the guest.")
		return nil
	}
	r.addNote(e, Usual, sameForAll)
	return nil
}

func readPowerManagement(r *conversion, e *element) error {
	on := func(name string) bool {
		return e.firstChild(name).hasAttr("enabled") && e.firstChild(name).attr("enabled") == "yes"
	}
	if on("suspend-to-mem") || on("suspend-to-disk") {
		r.addNote(e, Left, "A guest cannot suspend itself here: pause the VM, or take a snapshot with its memory.")
		return nil
	}
	r.addNote(e, Usual, sameForAll)
	return nil
}

// lifecycleAction handles on_poweroff, on_reboot and on_crash. usual is libvirt's value for the behaviour that every VM
// has, and meaning describes that behaviour. policies maps other values to the VM's restart policy.
func lifecycleAction(meaning, usual string, policies map[string]string) elementRule {
	return elementRule{read: func(r *conversion, e *element) error {
		switch word := strings.TrimSpace(e.text); {
		case word == usual:
			r.addNote(e, Usual, sameForAll)
		case policies[word] != "" && r.Spec.Policy.Restart != "always":
			r.setField(e, "policy.restart", policies[word])
		case policies[word] == "":
			r.addNote(e, Left, strconv.Quote(shortenForError(word))+" cannot be chosen here: "+meaning+".")
		}
		return nil
	}}
}

func readLaunchSecurity(r *conversion, e *element) error {
	kind := e.attr("type")
	if kind == "sev" {
		if policy, err := strconv.ParseUint(strings.TrimSpace(e.firstChild("policy").content()), 0, 32); err == nil && policy&4 != 0 {
			kind = "sev-es"
		}
	}
	if !slices.ContainsFunc(fleet.ConfidentialKinds, func(o fleet.Option) bool { return o.Value == kind && kind != "" }) {
		r.addNote(e, Left, "Memory is encrypted by AMD SEV or Intel TDX here, not by "+shortenForError(kind)+".")
		return nil
	}
	r.setField(e, "security.confidential", kind)
	r.addNote(e, Usual, "The host gives a new VM its own launch policy and keys.")
	return nil
}
