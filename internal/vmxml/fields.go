package vmxml

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// reading is one definition on its way into a spec.
type reading struct {
	Result
}

func (r *reading) note(e *element, k Kind, text string) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, Note{e.line, cut(cmp.Or(e.at, e.name)), k, text})
	}
}

// Read is what the definition says. An error, Invalid, says what is wrong with the XML itself.
func Read(text string) (Result, error) {
	root, err := parse(text)
	if err != nil {
		return Result{}, err
	}
	r := &reading{}
	r.Spec.Firmware = fleet.BIOS
	if t := root.attr("type"); t != "kvm" && t != "qemu" {
		return Result{}, wrong(root.line, "this is a domain of type %q. Only those of KVM and QEMU can be made here.", cut(t))
	}
	if err := r.each(root, domainTable); err != nil {
		return Result{}, err
	}
	if r.Spec.CPUs == 0 || r.Spec.MemoryMiB == 0 {
		return Result{}, wrong(root.line, "the domain does not say how many vCPUs and how much memory it has.")
	}
	for i := range r.Disks {
		if d := &r.Disks[i]; d.Bus == "ide" && r.Spec.Boot.Machine != fleet.MachinePC {
			d.Bus = "sata"
			r.Notes = append(r.Notes, Note{d.Line, "devices/disk", Left, "The machine q35 has no IDE: the disk is a SATA disk here."})
		}
	}
	slices.SortStableFunc(r.Notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return r.Result, nil
}

// part is what becomes of an element. Where take is nil, it is noted as kind with why.
type part struct {
	take func(r *reading, e *element) error
	many bool // there may be several
	kind Kind
	why  string
}

// each goes through the elements in one by their table.
func (r *reading) each(in *element, table map[string]part) error {
	seen := map[string]bool{}
	for _, e := range in.in {
		p, known := table[e.name]
		switch {
		case e.foreign && e.name == "commandline":
			r.note(e, Refused, "Arguments for QEMU itself go past all that is checked here.")
		case e.foreign:
			r.note(e, Refused, "An extension of libvirt's that goes past what is checked here.")
		case !known:
			r.note(e, Left, "A VM here has no such setting.")
		case p.take == nil:
			r.note(e, p.kind, p.why)
		case seen[e.name] && !p.many:
			return wrong(e.line, "<%s> stands there twice.", cut(e.name))
		default:
			if err := p.take(r, e); err != nil {
				return err
			}
		}
		seen[e.name] = true
	}
	return nil
}

func left(why string) part    { return part{kind: Left, why: why} }
func usual(why string) part   { return part{kind: Usual, why: why} }
func refused(why string) part { return part{kind: Refused, why: why} }

const (
	ownWay   = "Every VM here has it the same way."
	hostWay  = "The host chooses it."
	intoHost = "It reaches into the host."
)

// number reads a whole number of an element; most bounds it.
func number(e *element, text string, most int) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n > most {
		return 0, wrong(e.line, "%q in <%s> is no whole number up to %d.", cut(text), cut(e.name), most)
	}
	return n, nil
}

// kib reads an amount of memory, as libvirt writes it.
func kib(e *element, text, unit string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 50)
	by, known := map[string]uint64{"": 1 << 10, "b": 1, "bytes": 1, "KB": 1000, "k": 1 << 10, "KiB": 1 << 10, "MB": 1e6, "M": 1 << 20, "MiB": 1 << 20, "GB": 1e9, "G": 1 << 30, "GiB": 1 << 30, "TB": 1e12, "T": 1 << 40, "TiB": 1 << 40}[unit]
	if err != nil || !known || n > (1<<62)/by {
		return 0, wrong(e.line, "%q %s in <%s> is no amount of memory.", cut(text), cut(unit), cut(e.name))
	}
	return n * by >> 10, nil
}

// field sets a text of a spec by libvirt's word for it. What people cannot choose here is left out.
func (r *reading) field(e *element, name, value string, words map[string]string) {
	if to, ok := words[value]; ok {
		value = to
	}
	f, ok := fleet.FieldOf(name)
	if !ok || f.Input.Kind != fleet.InputText && !slices.ContainsFunc(f.Input.Options, func(o fleet.Option) bool { return o.Value == value }) {
		r.note(e, Left, cut(f.Noun)+" "+strconv.Quote(cut(value))+" is none that a VM here can have: it gets the usual one.")
		return
	}
	if err := f.Take(&r.Spec, []byte(strconv.Quote(strings.ToValidUTF8(value, "")))); err != nil {
		r.note(e, Left, "This is no value that a VM here can have.")
	}
}

var domainTable map[string]part

func init() { // its entries use the table's reader
	domainTable = map[string]part{
		"name":        {take: func(r *reading, e *element) error { r.Name = strings.TrimSpace(e.text); return nil }},
		"description": {take: func(r *reading, e *element) error { r.Description = strings.TrimSpace(e.text); return nil }},
		"title":       {take: takeTitle}, "memory": {take: takeMemory}, "vcpu": {take: takeCPUs}, "cpu": {take: takeCPU}, "os": {take: takeOS}, "memoryBacking": {take: takeBacking},
		"devices":       {take: func(r *reading, e *element) error { return r.each(e, deviceTable) }},
		"currentMemory": usual(ownWay), "uuid": usual("A new VM gets its own."), "features": usual(hostWay), "clock": usual(ownWay), "pm": usual(ownWay),
		"on_poweroff": usual(ownWay), "on_reboot": usual(ownWay), "on_crash": usual(ownWay), "metadata": left("What other programs note there is theirs."),
		"resource": usual(hostWay), "seclabel": usual(hostWay), "genid": left("A new VM gets no generation id."),
		"maxMemory": left("Memory cannot be added to a running guest here."), "launchSecurity": left("Encrypted guests cannot be made here yet."),
	}
}

func takeTitle(r *reading, e *element) error {
	r.Description = cmp.Or(r.Description, strings.TrimSpace(e.text))
	return nil
}

func takeMemory(r *reading, e *element) error {
	n, err := kib(e, e.text, e.attr("unit"))
	if err != nil {
		return err
	}
	if n>>10 > fleet.MaxMemoryMiB {
		return wrong(e.line, "this is more memory than a VM can have.")
	}
	r.Spec.MemoryMiB = int(n >> 10)
	if n%1024 != 0 {
		r.note(e, Left, "The memory is a whole number of MiB here: "+strconv.Itoa(r.Spec.MemoryMiB)+" MiB.")
	}
	return nil
}

func takeCPUs(r *reading, e *element) (err error) {
	if r.Spec.CPUs, err = number(e, e.text, fleet.MaxCPUs); err != nil {
		return err
	}
	if now := e.attr("current"); now != "" && now != strconv.Itoa(r.Spec.CPUs) {
		r.note(e, Left, "The guest gets all of its vCPUs at its start.")
	}
	if e.has("cpuset") {
		r.note(e, Left, "Which of the host's processors the guest runs on is the host's choice.")
	}
	return nil
}

func takeCPU(r *reading, e *element) error {
	model := e.first("model")
	switch mode := e.attr("mode"); {
	case mode == "host-passthrough" || mode == "host-model" || mode == "maximum":
		r.field(e, "cpu.model", mode, nil)
	case model != nil:
		r.field(model, "cpu.model", strings.TrimSpace(model.text), nil)
	}
	for _, in := range e.in {
		switch in.name {
		case "model":
		case "topology":
			each := map[string]int{"sockets": 1, "dies": 1, "clusters": 1, "cores": 1, "threads": 1}
			for name := range each {
				if in.has(name) {
					n, err := number(in, in.attr(name), fleet.MaxCPUs)
					if err != nil {
						return err
					}
					each[name] = max(n, 1)
				}
			}
			if each["dies"] > 1 || each["clusters"] > 1 {
				r.note(in, Left, "Dies and clusters cannot be said here: their cores are those of their socket.")
			}
			if each["dies"]*each["clusters"]*each["cores"] > fleet.MaxCPUs {
				return wrong(in.line, "these are more cores than a VM can have.")
			}
			r.Spec.CPU.Sockets, r.Spec.CPU.Cores, r.Spec.CPU.Threads = each["sockets"], each["dies"]*each["clusters"]*each["cores"], each["threads"]
		case "numa":
			r.note(in, Left, "NUMA cells are chosen under CPU.")
		case "feature":
			r.note(in, Left, "Single features of a processor cannot be chosen here.")
		default:
			r.note(in, Left, "This of a processor cannot be chosen here.")
		}
	}
	return nil
}

func takeOS(r *reading, e *element) error {
	if e.attr("firmware") == "efi" {
		r.Spec.Firmware = fleet.UEFI
	}
	return r.each(e, map[string]part{
		"type": {take: func(r *reading, e *element) error {
			if kind := strings.TrimSpace(e.text); kind != "hvm" {
				return wrong(e.line, "a guest of type %q cannot be made here.", cut(kind))
			}
			if arch := e.attr("arch"); arch != "" && arch != "x86_64" && arch != "aarch64" {
				r.note(e, Left, "The VM has the architecture of its host.")
			}
			switch m := e.attr("machine"); {
			case m == "" || strings.Contains(m, "q35"):
			case m == fleet.MachinePC || strings.HasPrefix(m, fleet.MachinePC+"-"):
				r.Spec.Boot.Machine = fleet.MachinePC
			default:
				r.note(e, Left, "A VM here has the machine q35 or pc, not "+cut(m)+".")
			}
			return nil
		}},
		"loader": {take: func(r *reading, e *element) error {
			if e.attr("type") == "pflash" {
				r.Spec.Firmware = fleet.UEFI
			}
			text := "The host chooses the firmware's file."
			if e.attr("secure") == "yes" {
				text = "The host chooses the firmware's file, without secure boot."
			}
			r.note(e, Left, text)
			return nil
		}},
		"bootmenu": {take: func(r *reading, e *element) error { r.Spec.Boot.Menu = e.attr("enable") == "yes"; return nil }},
		"firmware": usual(hostWay), "boot": {many: true, take: func(r *reading, e *element) error { r.note(e, Usual, ownWay); return nil }},
		"nvram":  left("The firmware's variables are not brought along: the VM begins with fresh ones."),
		"kernel": refused(intoHost), "initrd": refused(intoHost), "cmdline": refused(intoHost), "dtb": refused(intoHost), "acpi": refused(intoHost),
		"smbios": left("What the guest reads as its maker's words is as usual."),
	})
}

func takeBacking(r *reading, e *element) error {
	return r.each(e, map[string]part{
		"locked": {take: func(r *reading, _ *element) error { r.Spec.Memory.Locked = true; return nil }},
		"access": {take: func(r *reading, e *element) error { r.Spec.Memory.Shared = e.attr("mode") == "shared"; return nil }},
		"source": usual(hostWay), "allocation": usual(hostWay), "nosharepages": left("Whether the host merges equal pages is its own choice."),
		"hugepages": {take: func(r *reading, e *element) error {
			page := e.first("page")
			if page == nil {
				r.note(e, Left, "Huge pages need a size: choose one.")
				return nil
			}
			n, err := kib(page, page.attr("size"), page.attr("unit"))
			if err != nil {
				return err
			}
			if n > 1<<24 {
				return wrong(page.line, "there are no pages of this size.")
			}
			r.Spec.Memory.HugePageKiB = int(n)
			return nil
		}},
	})
}
