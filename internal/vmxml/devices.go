package vmxml

import (
	"cmp"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// defaultPort is the note for ports that every VM has.
const defaultPort = "Every VM here has one serial port for its console, and a channel for the guest agent."

var deviceTable = map[string]elementRule{
	"disk": {many: true, read: readDisk}, "interface": {many: true, read: readInterface}, "graphics": {many: true, read: readGraphics}, "video": {many: true, read: readVideo},
	"input": {many: true, read: readInput}, "sound": {many: true, read: readSound}, "watchdog": {many: true, read: readWatchdog}, "rng": {many: true, read: readRNG}, "tpm": {read: readTPM},
	"vsock": {read: readVSOCK}, "memballoon": {read: readBalloon}, "redirdev": {many: true, read: readRedirection},
	"serial": {many: true, read: readCharacterDevice}, "console": {many: true, read: readCharacterDevice}, "channel": {many: true, read: readCharacterDevice}, "parallel": {many: true, read: readCharacterDevice},
	"controller": commonRule("The VM gets the controllers that its devices need."), "audio": commonRule("The sound of a VM here is played over SPICE only."), "panic": droppedRule("A VM here has no panic device."),
	"emulator": commonRule("The host chooses the program that runs the guest."), "hub": droppedRule("A VM here has no USB hub."), "redirfilter": droppedRule("The SPICE viewer chooses the redirected devices."),
	"hostdev":    refusedRule("A device of the host. Choose it among the devices of its host, under Other devices."),
	"filesystem": refusedRule("A folder of the host. Share a folder of a pool, under Other devices."), "shmem": refusedRule("Memory shared with other processes of the host."),
	"smartcard": refusedRule("A smart card of the host."), "lease": refusedRule("A lease in a file of the host."), "pstore": refusedRule("A file of the host."),
	"nvram": droppedRule("Only other architectures have this device."), "iommu": droppedRule("A VM here has no IOMMU."), "crypto": droppedRule("A VM here has no crypto device."),
	"memory": droppedRule("A VM here has a memory size and a maximum memory for hot-plug: single modules cannot be chosen."),
}

func readGraphics(r *conversion, e *element) error {
	switch kind := e.attr("type"); kind {
	case "vnc":
		if e.hasAttr("keymap") {
			r.setField(e, "display.keyboard", e.attr("keymap"))
		}
	case "spice":
		r.Spec.Display.Spice = true
	default:
		r.addNote(e, Left, "The screen is available by VNC in the browser and by SPICE, not by "+shortenForError(kind)+".")
		return nil
	}
	if e.hasAttr("passwd") {
		r.addNote(e, Left, "The password is dropped: the screen is reached through Quantix, and SPICE on the VM's host.")
	} else {
		r.addNote(e, Usual, "The screen is reached through Quantix, and SPICE on the VM's host: ports and addresses cannot be chosen.")
	}
	return nil
}

func readVideo(r *conversion, e *element) error {
	m := e.firstChild("model")
	if m == nil || r.Spec.Display.Video != "" {
		r.addNote(e, Left, "A VM here has one graphics card.")
		return nil
	}
	if e.firstChild("driver") != nil || m.firstChild("acceleration") != nil {
		r.addNote(e, Left, "3D acceleration and a driver for the graphics card cannot be chosen here.")
	}
	r.setField(m, "display.video", m.attr("type"))
	if m.hasAttr("heads") {
		n, err := parseNumber(m, m.attr("heads"), fleet.MaxHeads)
		if err != nil {
			return err
		}
		if n > 1 {
			r.Spec.Display.Heads = n
		}
	}
	return nil
}

func readInput(r *conversion, e *element) error {
	switch e.attr("type") {
	case "tablet", "keyboard":
		r.addNote(e, Usual, sameForAll)
	case "mouse":
		if e.attr("bus") == "ps2" {
			r.addNote(e, Usual, sameForAll)
			return nil
		}
		r.Spec.Display.Pointer = "mouse"
	default:
		r.addNote(e, Refused, "A device of the host.")
	}
	return nil
}

func readSound(r *conversion, e *element) error {
	r.setField(e, "display.sound", e.attr("model"))
	return nil
}

func readWatchdog(r *conversion, e *element) error {
	model, action := e.attr("model"), cmp.Or(e.attr("action"), "reset")
	switch has := r.Spec.Devices.Watchdog; {
	case model == "itco" && action == "reset":
		r.addNote(e, Usual, "The chipset of each q35 machine has this watchdog.")
		return nil
	case has != "":
		r.addNote(e, Left, "A VM here has one watchdog.")
		return nil
	}
	r.setField(e, "devices.watchdog", model)
	if r.Spec.Devices.Watchdog != "" {
		r.setField(e, "devices.watchdogAction", action)
	}
	return nil
}

func readBalloon(r *conversion, e *element) error {
	switch {
	case e.attr("model") == "none":
		r.setField(e, "devices.balloon", "none")
	case e.attr("freePageReporting") == "on":
		r.setField(e, "devices.balloon", "reporting")
	}
	r.noteOtherAttributes(e, "balloon", "model", "freePageReporting")
	return nil
}

func readVSOCK(r *conversion, e *element) error {
	r.Spec.Devices.VSOCK = true
	if cid := e.firstChild("cid"); cid.hasAttr("address") && cid.attr("auto") != "yes" {
		r.addNote(cid, Left, "The host chooses the vsock's number (CID).")
	}
	return nil
}

// readRedirection counts USB redirection ports. resolveSettings drops them later if the VM has no SPICE.
func readRedirection(r *conversion, e *element) error {
	if e.attr("type") != "spicevmc" {
		r.addNote(e, Refused, "A port that ends in a file, a device or a network of the host.")
		return nil
	}
	r.spiceOnly = append(r.spiceOnly, e)
	r.setField(e, "display.usbRedirection", r.Spec.Display.USBRedirection+1)
	return nil
}

func readRNG(r *conversion, e *element) error {
	if b := e.firstChild("backend"); b != nil && (b.attr("model") != "random" && b.attr("model") != "builtin" || !isOneOf(strings.TrimSpace(b.text), "", "/dev/urandom", "/dev/random")) {
		r.addNote(b, Refused, "A file or a program of the host.")
		return nil
	}
	if rate := e.firstChild("rate"); rate != nil {
		n, err := parseNumber(rate, rate.attr("bytes"), fleet.MaxRNGRate)
		if err != nil {
			return err
		}
		period := 1000
		if rate.hasAttr("period") {
			if period, err = parseNumber(rate, rate.attr("period"), 1<<30); err != nil {
				return err
			}
		}
		if n > 0 {
			r.setField(rate, "devices.rngRate", max(n*1000/max(period, 1), 1))
		}
	}
	return nil
}

func readTPM(r *conversion, e *element) error {
	if b := e.firstChild("backend"); b == nil || b.attr("type") != "emulator" {
		r.addNote(e, Refused, "A TPM of the host.")
		return nil
	}
	r.Spec.Security.TPM = true
	r.addNote(e, Left, "The VM gets a new TPM: the contents of the old one are not imported.")
	return nil
}

// readCharacterDevice reads a serial or parallel port, a console or a channel. The first serial port is the console.
func readCharacterDevice(r *conversion, e *element) error {
	source := e.firstChild("source")
	path := cmp.Or(source.attr("path"), source.attr("host"), source.attr("file"))
	own := path == "" || strings.HasPrefix(path, "/var/lib/libvirt/qemu/") || strings.HasPrefix(path, "/run/libvirt/qemu/")
	switch kind := e.attr("type"); {
	case kind == "pty" && e.name == "parallel":
		r.Spec.Devices.Parallel = true
	case kind == "pty" && e.name == "serial":
		if r.serials++; r.serials > 1 {
			r.setField(e, "devices.serials", r.serials-1)
			return nil
		}
		r.addNote(e, Usual, defaultPort)
	case kind == "spicevmc":
		r.addNote(e, Usual, "This channel belongs to SPICE.")
	case kind == "unix" && e.name == "channel" && own:
		if name := e.firstChild("target").attr("name"); name != "" && name != "org.qemu.guest_agent.0" {
			r.addNote(e, Left, "The channel "+shortenForError(name)+" cannot be chosen here: a VM has a channel for the guest agent only.")
			return nil
		}
		r.addNote(e, Usual, defaultPort)
	case kind == "pty", kind == "unix" && own:
		r.addNote(e, Usual, defaultPort)
	default:
		r.addNote(e, Refused, "A port that ends in a file, a device or a network of the host.")
	}
	return nil
}

// isOption reports whether value is one of the options.
func isOption(options []fleet.Option, value string) bool {
	return slices.ContainsFunc(options, func(o fleet.Option) bool { return value != "" && o.Value == value })
}

func isOneOf(text string, of ...string) bool {
	return slices.Contains(of, text)
}
