package vmxml

import (
	"cmp"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// plainPort is what is said of ports.
const plainPort = "Every VM here has one serial port and the channel of its guest's agent. More ports are chosen under Other devices."

var deviceTable = map[string]part{
	"disk": {many: true, take: takeDisk}, "interface": {many: true, take: takeInterface}, "graphics": {many: true, take: takeGraphics}, "video": {many: true, take: takeVideo},
	"input": {many: true, take: takeInput}, "sound": {many: true, take: takeSound}, "watchdog": {many: true, take: takeWatchdog}, "rng": {many: true, take: takeRNG}, "tpm": {take: takeTPM},
	"vsock":  {take: func(r *reading, _ *element) error { r.Spec.Devices.VSOCK = true; return nil }},
	"serial": {many: true, take: takePort}, "console": {many: true, take: takePort}, "channel": {many: true, take: takePort}, "parallel": {many: true, take: takePort},
	"controller": usual("The VM gets the controllers that its devices need."), "memballoon": usual(ownWay), "audio": usual(ownWay), "panic": left("A VM here has no panic device."),
	"emulator": usual("The host chooses the program that runs the guest."),
	"hostdev":  refused("A device of the host."), "redirdev": left("Ports for USB redirection are chosen under Display and input."), "hub": left("A VM here has no USB hub."),
	"filesystem": refused("A directory of the host."), "shmem": refused("Memory of the host that others share."), "smartcard": refused("A card at the host."),
	"lease": refused("A lease in a file of the host."), "nvram": left("This is of other architectures."), "iommu": left("A VM here has no IOMMU."),
	"memory": left("Memory cannot be added as a device here."), "pstore": refused("A file of the host."), "crypto": left("A VM here has no crypto device."),
}

func takeDisk(r *reading, e *element) error {
	d := Disk{Line: e.line, CDROM: e.attr("device") == "cdrom"}
	target, source := e.first("target"), e.first("source")
	if target != nil {
		d.Target = cut(target.attr("dev"))
	}
	switch device := cmp.Or(e.attr("device"), "disk"); {
	case device == "lun":
		r.note(e, Refused, "A disk that takes SCSI commands through to the host's device.")
		return nil
	case device != "disk" && device != "cdrom":
		r.note(e, Left, "A VM here has no such drive: "+cut(device)+".")
		return nil
	}
	if target != nil && !d.CDROM {
		takeBus(r, target, &d)
	}
	for _, in := range e.in {
		switch in.name {
		case "source", "target", "address", "alias":
		case "serial":
			d.Serial = strings.TrimSpace(in.text)
		case "driver", "readonly", "boot":
			r.note(in, Usual, "Caching, discard and the order of booting are as on every VM here.")
		case "backingStore", "mirror":
			if len(in.in) > 0 {
				r.note(in, Refused, "A disk that stands on another file.")
			}
		case "encryption", "auth":
			r.note(in, Refused, "A secret of the host.")
		default:
			r.note(in, Left, "This of a disk cannot be chosen here.")
		}
	}
	switch kind := e.attr("type"); {
	case source == nil || len(source.attrs) == 0:
		if !d.CDROM {
			r.note(e, Left, "The disk says not what it is: choose it.")
		}
	case kind == "file":
		d.Path = source.attr("file")
	case kind == "block":
		d.Path = source.attr("dev")
	case kind == "volume":
		d.Pool, d.Volume = source.attr("pool"), source.attr("volume")
	default:
		r.note(e, Refused, "A disk of type "+cut(kind)+" is of no pool.")
		return nil
	}
	r.Disks = append(r.Disks, d)
	return nil
}

func takeBus(r *reading, target *element, d *Disk) {
	switch bus := target.attr("bus"); {
	case bus == "" || bus == "virtio":
	case offered(fleet.DiskBuses, bus):
		d.Bus = bus
	default:
		r.note(target, Left, "A disk is at the virtio bus here, not at "+cut(bus)+": its guest needs the driver.")
	}
}

func takeInterface(r *reading, e *element) error {
	n := fleet.NIC{}
	source, mac := e.first("source"), e.first("mac")
	if mac != nil {
		n.MAC = strings.TrimSpace(mac.attr("address"))
	}
	switch kind := e.attr("type"); {
	case kind == "network" && source.has("network"):
		n.Network, n.PortGroup = source.attr("network"), source.attr("portgroup")
	case kind == "bridge" && source.has("bridge"):
		n.Bridge = source.attr("bridge")
	case kind == "user":
		r.note(e, Left, "A card is on a network here: choose one.")
		return nil
	default:
		r.note(e, Refused, "A card of type "+cut(kind)+" is on no network of Quantix's.")
		return nil
	}
	for _, in := range e.in {
		switch in.name {
		case "source", "mac", "address", "alias", "target":
		case "model":
			if m := in.attr("type"); m != "virtio" && offered(fleet.NICModels, m) {
				n.Model = m
			} else if m != "virtio" {
				r.note(in, Left, "A card is a virtio one here, not "+cut(m)+": its guest needs the driver.")
			}
		case "filterref":
			r.note(in, Left, "What passes the card is said by security groups here.")
		case "script", "backend", "downscript":
			r.note(in, Refused, "A program of the host.")
		default:
			r.note(in, Left, "This of a card cannot be chosen here.")
		}
	}
	if len(r.Spec.NICs) >= 64 {
		return wrong(e.line, "this has more cards than a VM can have.")
	}
	r.Spec.NICs = append(r.Spec.NICs, n)
	return nil
}

func takeGraphics(r *reading, e *element) error {
	if kind := e.attr("type"); kind != "vnc" {
		r.note(e, Left, "The screen is shown by VNC in the browser, not by "+cut(kind)+".")
		return nil
	}
	if e.has("keymap") {
		r.field(e, "display.keyboard", e.attr("keymap"), nil)
	}
	if e.has("passwd") {
		r.note(e, Left, "The password is not taken: the screen is reached through Quantix alone.")
	} else {
		r.note(e, Usual, "The screen is reached through Quantix alone.")
	}
	return nil
}

func takeVideo(r *reading, e *element) error {
	m := e.first("model")
	if m == nil || r.Spec.Display.Video != "" {
		r.note(e, Left, "A VM here has one graphics card.")
		return nil
	}
	r.field(m, "display.video", m.attr("type"), map[string]string{"vga": ""})
	if m.has("heads") {
		n, err := number(m, m.attr("heads"), fleet.MaxHeads)
		if err != nil {
			return err
		}
		if r.Spec.Display.Heads = n; n <= 1 || r.Spec.Display.Video == "" {
			r.Spec.Display.Heads = 0
		}
	}
	return nil
}

func takeInput(r *reading, e *element) error {
	switch e.attr("type") {
	case "tablet", "keyboard":
		r.note(e, Usual, ownWay)
	case "mouse":
		if e.attr("bus") == "ps2" {
			r.note(e, Usual, ownWay)
			return nil
		}
		r.Spec.Display.Pointer = "mouse"
	default:
		r.note(e, Refused, "A device of the host.")
	}
	return nil
}

func takeSound(r *reading, e *element) error {
	r.field(e, "display.sound", e.attr("model"), nil)
	return nil
}

func takeWatchdog(r *reading, e *element) error {
	if e.attr("model") == "itco" {
		r.note(e, Usual, "Each machine of this kind has it.")
		return nil
	}
	r.field(e, "devices.watchdog", e.attr("model"), nil)
	if r.Spec.Devices.Watchdog != "" && e.has("action") {
		r.field(e, "devices.watchdogAction", e.attr("action"), map[string]string{"reset": ""})
	}
	return nil
}

func takeRNG(r *reading, e *element) error {
	if b := e.first("backend"); b != nil && (b.attr("model") != "random" && b.attr("model") != "builtin" || !oneOf(strings.TrimSpace(b.text), "", "/dev/urandom", "/dev/random")) {
		r.note(b, Refused, "A file or a program of the host.")
		return nil
	}
	if rate := e.first("rate"); rate != nil {
		n, err := number(rate, rate.attr("bytes"), fleet.MaxRNGRate)
		if err != nil {
			return err
		}
		period := 1000
		if rate.has("period") {
			if period, err = number(rate, rate.attr("period"), 1<<30); err != nil {
				return err
			}
		}
		if period != 1000 {
			r.note(rate, Left, "Random numbers are counted by the second here: choose how many.")
			return nil
		}
		r.Spec.Devices.RNGRate = n
	}
	return nil
}

func takeTPM(r *reading, e *element) error {
	if b := e.first("backend"); b == nil || b.attr("type") != "emulator" {
		r.note(e, Refused, "A TPM of the host.")
		return nil
	}
	r.Spec.Security.TPM = true
	r.note(e, Left, "The VM gets a new TPM: what the old one keeps is not brought along.")
	return nil
}

// takePort looks at a serial or parallel port, a console or a channel.
func takePort(r *reading, e *element) error {
	source := e.first("source")
	path := ""
	if source != nil {
		path = cmp.Or(source.attr("path"), source.attr("host"), source.attr("file"))
	}
	switch kind := e.attr("type"); {
	case kind == "pty" && e.name != "parallel", kind == "spicevmc", kind == "unix" && (path == "" || strings.HasPrefix(path, "/var/lib/libvirt/qemu/")):
		r.note(e, Usual, plainPort)
	default:
		r.note(e, Refused, "A port that ends in a file, a device or a network of the host.")
	}
	return nil
}

// offered reports whether people can choose the value here.
func offered(options []fleet.Option, value string) bool {
	return slices.ContainsFunc(options, func(o fleet.Option) bool { return value != "" && o.Value == value })
}

func oneOf(text string, of ...string) bool {
	return slices.Contains(of, text)
}
