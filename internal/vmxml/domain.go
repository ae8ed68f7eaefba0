package vmxml

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

var domainTable map[string]part

func init() { // an init function, because the table's entries refer to a reader that uses the table
	domainTable = map[string]part{
		"name":        {read: func(r *reading, e *element) error { r.Name = strings.TrimSpace(e.text); return nil }},
		"description": {read: func(r *reading, e *element) error { r.Description = strings.TrimSpace(e.text); return nil }},
		"title":       {read: readTitle}, "memory": {read: readMemory}, "vcpu": {read: readCPUs}, "cpu": {read: readCPU}, "os": {read: readOS}, "memoryBacking": {read: readBacking},
		"devices":       {read: func(r *reading, e *element) error { return r.readChildren(e, deviceTable) }},
		"currentMemory": {read: readCurrentMemory}, "maxMemory": {read: readMaxMemory}, "cputune": {read: readCPUTune}, "numatune": {read: readNUMATune},
		"features": {read: readFeatures}, "clock": {read: readClock}, "pm": {read: readPM},
		"on_poweroff": lifecycleAction("a guest that powers off stays off", "destroy", map[string]string{"restart": "always"}), "on_crash": lifecycleAction("a guest that crashes stays off or is restarted", "destroy", map[string]string{"restart": "onFailure"}),
		"on_reboot": lifecycleAction("a guest that reboots is not powered off", "restart", nil), "uuid": usualPart("A new VM gets a new UUID."), "metadata": leftPart("The metadata of other programs is not imported."),
		"resource": usualPart(hostChoice), "seclabel": usualPart(hostChoice), "genid": leftPart("A new VM gets no generation id."),
		"launchSecurity": {read: readLaunchSecurity}, "iothreads": leftPart("IOThreads cannot be chosen here: the disks' I/O runs in QEMU's main thread."),
		"iothreadids": leftPart("IOThreads cannot be chosen here."), "defaultiothread": leftPart("IOThreads cannot be chosen here."),
		"blkiotune": leftPart("I/O limits are set for each disk, not for the whole VM."), "sysinfo": leftPart("The SMBIOS texts that the guest reads cannot be chosen here."),
		"bootloader": refusedPart("A program of the host."),
	}
}

func readTitle(r *reading, e *element) error {
	r.Description = cmp.Or(r.Description, strings.TrimSpace(e.text))
	return nil
}

func readMemory(r *reading, e *element) (err error) {
	r.Spec.MemoryMiB, err = r.mib(e)
	return err
}

// readCurrentMemory may run before readMemory, so resolve compares the two values later.
func readCurrentMemory(r *reading, e *element) error {
	n, err := kib(e, e.text, e.attr("unit"))
	if err != nil {
		return err
	}
	if n>>10 > 0 {
		r.setField(e, "memory.balloonMiB", n>>10)
	}
	return nil
}

func readMaxMemory(r *reading, e *element) error {
	n, err := r.mib(e)
	if err != nil {
		return err
	}
	r.setField(e, "memory.maxMiB", n)
	return nil
}

func readCPUs(r *reading, e *element) (err error) {
	if r.Spec.CPUs, err = number(e, e.text, fleet.MaxCPUs); err != nil {
		return err
	}
	if e.has("current") {
		now, err := number(e, e.attr("current"), r.Spec.CPUs)
		if err != nil {
			return err
		}
		if now > 0 && now < r.Spec.CPUs {
			r.Spec.CPU.Max, r.Spec.CPUs = r.Spec.CPUs, now
		}
	}
	if e.has("cpuset") {
		r.setField(e, "cpu.pinned", e.attr("cpuset"))
	}
	return nil
}

func readCPU(r *reading, e *element) error {
	model := e.first("model")
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
			switch name := shorten(in.attr("name")); in.attr("policy") {
			case "", "require", "force":
				features = append(features, "+"+name)
			case "disable", "forbid":
				features = append(features, "-"+name)
			default:
				r.note(in, Left, "A CPU feature can be required or disabled here; the policy "+shorten(in.attr("policy"))+" does neither.")
			}
		default:
			r.note(in, Left, "Only the model, features, topology and NUMA nodes of a processor can be chosen here.")
		}
	}
	if len(features) > 0 {
		r.setField(e, "cpu.features", strings.Join(features, " "))
	}
	return nil
}

func readTopology(r *reading, e *element) error {
	each := map[string]int{"sockets": 1, "dies": 1, "clusters": 1, "cores": 1, "threads": 1}
	for name := range each {
		if e.has(name) {
			n, err := number(e, e.attr(name), fleet.MaxCPUs)
			if err != nil {
				return err
			}
			each[name] = max(n, 1)
		}
	}
	if each["dies"] > 1 || each["clusters"] > 1 {
		r.note(e, Left, "Dies and clusters cannot be chosen here: their cores count as cores of the socket.")
	}
	if each["dies"]*each["clusters"]*each["cores"] > fleet.MaxCPUs {
		return lineError(e.line, "these are more cores than a VM can have.")
	}
	r.Spec.CPU.Sockets, r.Spec.CPU.Cores, r.Spec.CPU.Threads = each["sockets"], each["dies"]*each["clusters"]*each["cores"], each["threads"]
	return nil
}

// readNUMANodes reads guest NUMA nodes. A single node contains all vCPUs and memory, and needs no setting.
func readNUMANodes(r *reading, e *element) error {
	var nodes []fleet.VMNUMANode
	for _, in := range e.children {
		if in.name != "cell" {
			r.note(in, Left, "Only the vCPUs, memory and host nodes of a NUMA node can be chosen here.")
			continue
		}
		n, err := kib(in, in.attr("memory"), in.attr("unit"))
		if err != nil {
			return err
		}
		if n>>10 > fleet.MaxMemoryMiB || len(nodes) == fleet.MaxNUMANodes {
			return lineError(in.line, "these are more NUMA nodes, or larger ones, than a VM can have.")
		}
		if len(in.children) > 0 || in.has("memAccess") || in.has("discard") {
			r.note(in, Left, "Distances, caches and access of single NUMA nodes cannot be chosen here.")
		}
		nodes = append(nodes, fleet.VMNUMANode{CPUs: shorten(in.attr("cpus")), MemoryMiB: int(n >> 10)})
	}
	if len(nodes) == 1 {
		r.note(e, Usual, "A single NUMA node contains the whole VM and needs no setting.")
		return nil
	}
	r.Spec.NUMA = nodes
	return nil
}

func readFeatures(r *reading, e *element) error {
	return r.readChildren(e, map[string]part{
		"acpi": usualPart("Every VM here has it."), "apic": usualPart("Every VM here has it."), "pae": usualPart("Every VM here has it."), "vmport": usualPart(hostChoice), "smm": usualPart("Secure boot includes this."),
		"hyperv": leftPart("Hyper-V enlightenments cannot be chosen here."), "kvm": leftPart("The KVM features that a guest sees cannot be chosen here."),
	})
}

func readClock(r *reading, e *element) error {
	if offset := cmp.Or(e.attr("offset"), "utc"); offset != "utc" {
		r.note(e, Left, "A VM's clock is in UTC here, not "+shorten(offset)+": set the time zone in the guest.")
		return nil
	}
	r.note(e, Usual, sameForAll)
	return nil
}

func readPM(r *reading, e *element) error {
	on := func(name string) bool { return e.first(name).has("enabled") && e.first(name).attr("enabled") == "yes" }
	if on("suspend-to-mem") || on("suspend-to-disk") {
		r.note(e, Left, "A guest cannot suspend itself here: pause the VM, or take a snapshot with its memory.")
		return nil
	}
	r.note(e, Usual, sameForAll)
	return nil
}

// lifecycleAction handles on_poweroff, on_reboot and on_crash. usual is libvirt's value for the behaviour that every VM
// has, and meaning describes that behaviour. policies maps other values to the VM's restart policy.
func lifecycleAction(meaning, usual string, policies map[string]string) part {
	return part{read: func(r *reading, e *element) error {
		switch word := strings.TrimSpace(e.text); {
		case word == usual:
			r.note(e, Usual, sameForAll)
		case policies[word] != "" && r.Spec.Policy.Restart != "always":
			r.setField(e, "policy.restart", policies[word])
		case policies[word] == "":
			r.note(e, Left, strconv.Quote(shorten(word))+" cannot be chosen here: "+meaning+".")
		}
		return nil
	}}
}

func readLaunchSecurity(r *reading, e *element) error {
	kind := e.attr("type")
	if kind == "sev" {
		if policy, err := strconv.ParseUint(strings.TrimSpace(e.first("policy").content()), 0, 32); err == nil && policy&4 != 0 {
			kind = "sev-es"
		}
	}
	if !slices.ContainsFunc(fleet.ConfidentialKinds, func(o fleet.Option) bool { return o.Value == kind && kind != "" }) {
		r.note(e, Left, "Memory is encrypted by AMD SEV or Intel TDX here, not by "+shorten(kind)+".")
		return nil
	}
	r.setField(e, "security.confidential", kind)
	r.note(e, Usual, "The host gives a new VM its own launch policy and keys.")
	return nil
}
