package vmxml

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// conversion is the state while one definition is converted into a spec.
type conversion struct {
	Result
	firmwareOrder []*element // boot order of device kinds in the definition
	spiceOnly     []*element // devices that need SPICE; they are dropped if the VM has no SPICE
	serials       int        // serial ports so far
	numaNodes     map[int]*element
}

func (r *conversion) addNote(e *element, k NoteKind, text string) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, Note{e.line, shortenForError(cmp.Or(e.at, e.name)), k, text})
	}
}

// ConvertDomain converts a definition into a spec. A fault of the XML is an error with the code Invalid.
func ConvertDomain(text string) (Result, error) {
	root, err := parseDomain(text)
	if err != nil {
		return Result{}, err
	}
	r := &conversion{numaNodes: map[int]*element{}}
	r.Spec.Firmware = fleet.BIOS
	if t := root.attr("type"); t != "kvm" && t != "qemu" {
		return Result{}, lineError(root.line, "this is a domain of type %q. Only KVM and QEMU domains can be imported.", shortenForError(t))
	}
	if err := r.readChildren(root, domainTable); err != nil {
		return Result{}, err
	}
	if r.Spec.CPUs == 0 || r.Spec.MemoryMiB == 0 {
		return Result{}, lineError(root.line, "the domain does not say how many vCPUs and how much memory it has.")
	}
	r.resolveSettings(root)
	slices.SortStableFunc(r.Notes, func(a, b Note) int { return cmp.Compare(a.Line, b.Line) })
	return r.Result, nil
}

// elementRule describes how an element is handled. If read is nil, the element becomes a note of this kind with the
// text why.
type elementRule struct {
	read func(r *conversion, e *element) error
	many bool // may occur several times
	kind NoteKind
	why  string
}

// readChildren handles the child elements of parent as the table describes.
func (r *conversion) readChildren(parent *element, table map[string]elementRule) error {
	seen := map[string]bool{}
	for _, e := range parent.children {
		p, known := table[e.name]
		switch {
		case e.foreign && e.name == "commandline":
			r.addNote(e, Refused, "Arguments for QEMU bypass the checks of Quantix.")
		case e.foreign:
			r.addNote(e, Refused, "An extension of libvirt that bypasses the checks of Quantix.")
		case !known:
			r.addNote(e, Left, "A VM here has no such setting.")
		case p.read == nil && p.why == "": // the element does not describe the VM
		case p.read == nil:
			r.addNote(e, p.kind, p.why)
		case seen[e.name] && !p.many:
			return lineError(e.line, "<%s> occurs twice.", shortenForError(e.name))
		default:
			if err := p.read(r, e); err != nil {
				return err
			}
		}
		seen[e.name] = true
	}
	return nil
}

func droppedRule(why string) elementRule { return elementRule{kind: Left, why: why} }
func commonRule(why string) elementRule  { return elementRule{kind: Usual, why: why} }
func refusedRule(why string) elementRule { return elementRule{kind: Refused, why: why} }

const (
	sameForAll = "This is the same for every VM here."
	hostChoice = "The host chooses this."
)

// parseNumber parses a whole number from 0 to maximum.
func parseNumber(e *element, text string, maximum int) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n > maximum {
		return 0, lineError(e.line, "%q in <%s> is no whole number up to %d.", shortenForError(text), shortenForError(e.name), maximum)
	}
	return n, nil
}

// parseKiB parses an amount of memory with libvirt's unit and returns KiB.
func parseKiB(e *element, text, unit string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 50)
	by, known := map[string]uint64{"": 1 << 10, "b": 1, "bytes": 1, "KB": 1000, "k": 1 << 10, "KiB": 1 << 10, "MB": 1e6, "M": 1 << 20, "MiB": 1 << 20, "GB": 1e9, "G": 1 << 30, "GiB": 1 << 30, "TB": 1e12, "T": 1 << 40, "TiB": 1 << 40}[unit]
	if err != nil || !known || n > (1<<62)/by {
		return 0, lineError(e.line, "%q %s in <%s> is no amount of memory.", shortenForError(text), shortenForError(unit), shortenForError(e.name))
	}
	return n * by >> 10, nil
}

// parseMiB parses an amount of memory of the VM and returns MiB.
func (r *conversion) parseMiB(e *element) (int, error) {
	n, err := parseKiB(e, e.text, e.attr("unit"))
	if err != nil {
		return 0, err
	}
	if n>>10 > fleet.MaxMemoryMiB {
		return 0, lineError(e.line, "this is more memory than a VM can have.")
	}
	if n%1024 != 0 {
		r.addNote(e, Left, fmt.Sprintf("The memory is a whole number of MiB here: %d MiB.", n>>10))
	}
	return int(n >> 10), nil
}

// fieldWriter writes values of the definition into the fields of the struct to, and notes into the conversion r.
type fieldWriter[S any] struct {
	r      *conversion
	fields []fleet.Field[S]
	to     *S
}

func (r *conversion) specFields() fieldWriter[fleet.VMSpec] {
	return fieldWriter[fleet.VMSpec]{r, fleet.OptionalFields(), &r.Spec}
}

func (r *conversion) diskFields(d *Disk) fieldWriter[fleet.Disk] {
	return fieldWriter[fleet.Disk]{r, fleet.DiskFields, &d.As}
}

func (r *conversion) nicFields(n *fleet.NIC) fieldWriter[fleet.NIC] {
	return fieldWriter[fleet.NIC]{r, fleet.NICFields, n}
}

// setValue stores a value in the named field. If the field refuses the value, the field stays unchanged, and a note has
// the reason.
func (w fieldWriter[S]) setValue(e *element, name string, value any) {
	i := slices.IndexFunc(w.fields, func(f fleet.Field[S]) bool { return f.Name == name })
	f, was := w.fields[i], *w.to
	text, err := json.Marshal(value)
	if err == nil {
		err = f.Decode(w.to, text)
	}
	why := f.ValueError(*w.to)
	if err == nil && why == "" {
		return
	}
	*w.to = was
	shown := shortenForError(fmt.Sprint(value))
	if f.Input.Kind == fleet.InputChoice {
		why = "The default is used."
	}
	w.r.addNote(e, Left, strings.TrimSpace(fmt.Sprintf("%s%s %q is not available for a VM here. %s", strings.ToUpper(f.Type[:1]), shortenForError(f.Type[1:]), shown, why)))
}

// setField sets a field of the spec.
func (r *conversion) setField(e *element, name string, value any) {
	r.specFields().setValue(e, name, value)
}

// setNumberField sets a numeric field of the spec. A text that is not a number is an error. Zero keeps the default.
func (r *conversion) setNumberField(e *element, name, text string) error {
	return r.specFields().setNumber(e, name, text)
}

// setNumber parses text and stores the number as setValue does. Zero keeps the default.
func (w fieldWriter[S]) setNumber(e *element, name, text string) error {
	return w.setQuotient(e, name, text, 1)
}

// setQuotient works like setNumber, but divides the number by divisor (1024 converts bytes to KiB) and rounds up.
func (w fieldWriter[S]) setQuotient(e *element, name, text string, divisor uint64) error {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 62)
	if err != nil {
		return lineError(e.line, "%q in <%s> is no whole number.", shortenForError(text), shortenForError(e.name))
	}
	if n > 0 {
		w.setValue(e, name, int64((n+divisor-1)/divisor))
	}
	return nil
}

// noteOtherAttributes adds a note if the element has attributes other than known. what names the element in the note:
// "NIC driver".
func (r *conversion) noteOtherAttributes(e *element, what string, known ...string) {
	var more []string
	for name := range e.attrs {
		if !slices.Contains(known, name) {
			more = append(more, shortenForError(name))
		}
	}
	if slices.Sort(more); len(more) > 0 {
		r.addNote(e, Left, fmt.Sprintf("These attributes of a %s cannot be chosen here: %s.", what, shortenForError(strings.Join(more, ", "))))
	}
}

// resolveSettings decides settings that depend on several elements, after all elements were read.
func (r *conversion) resolveSettings(root *element) {
	pc := r.Spec.Boot.Machine == fleet.MachinePC
	for i := range r.Disks {
		if d := &r.Disks[i]; d.As.Bus == "ide" && !pc && !d.CDROM {
			d.As.Bus = "sata"
			r.Notes = append(r.Notes, Note{d.Line, "devices/disk", Left, "The machine q35 has no IDE: the disk is a SATA disk here."})
		}
	}
	if now := root.firstChild("currentMemory"); r.Spec.Memory.BalloonMiB > 0 && (r.Spec.Devices.Balloon == "none" || r.Spec.Memory.BalloonMiB >= r.Spec.MemoryMiB) {
		if r.Spec.Memory.BalloonMiB < r.Spec.MemoryMiB {
			r.addNote(now, Left, "Without a balloon the guest has all of its memory.")
		}
		r.Spec.Memory.BalloonMiB = 0
	}
	if most := root.firstChild("maxMemory"); r.Spec.Memory.MaxMiB > 0 && r.Spec.Memory.MaxMiB <= r.Spec.MemoryMiB {
		r.addNote(most, Usual, "The VM already has that much memory.")
		r.Spec.Memory.MaxMiB = 0
	}
	if !r.Spec.Display.Spice {
		for _, e := range r.spiceOnly {
			r.addNote(e, Left, "USB redirection comes through SPICE, which this VM does not have.")
		}
		r.Spec.Display.USBRedirection = 0
	}
	if d := r.Spec.Display; d.Heads > 1 && d.Video != "virtio" && d.Video != "qxl" {
		r.Spec.Display.Heads = 0
	}
	for i, e := range r.numaNodes {
		switch {
		case i < len(r.Spec.NUMA):
			r.Spec.NUMA[i].Nodes = shortenForError(e.attr("nodeset"))
		case i == 0 && r.Spec.Memory.Nodes == "":
			r.setField(e, "memory.nodes", e.attr("nodeset"))
		default:
			r.addNote(e, Left, "The VM has no such NUMA node.")
		}
	}
	r.resolveBootOrder()
}
