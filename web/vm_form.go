package web

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-playground/form/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

// The form's fields have the API's names, such as "spec.cpus", and are decoded into the spec itself. Only values that
// users write differently are converted here: memory as a number with a unit, sizes in GiB, a volume or network as one
// choice.
var specDecoder, specEncoder = newSpecDecoder(), newSpecEncoder()

var specKey = regexp.MustCompile(`^spec(\.[A-Za-z]+(\[[0-9]{1,3}\])?)+$`)

type specForm struct {
	Spec fleet.VMSpec `json:"spec"`
}

func newSpecDecoder() *form.Decoder {
	d := form.NewDecoder()
	d.SetTagName("json")
	d.SetMaxArraySize(maxRows)
	d.RegisterCustomTypeFunc(func(texts []string) (any, error) {
		if len(texts) > 1 {
			return memoryOf(texts[0], texts[1])
		}
		return numberOf(texts[0])
	}, 0)
	// a ticked checkbox comes after the hidden default of its field
	d.RegisterCustomTypeFunc(func(texts []string) (any, error) {
		return slices.Contains(texts, "yes") || slices.Contains(texts, "true"), nil
	}, false)
	d.RegisterCustomTypeFunc(func(texts []string) (any, error) { return sizeOf(texts[0]) }, int64(0))
	d.RegisterCustomTypeFunc(func(texts []string) (any, error) {
		if v := volumeOf(texts[0]); v != (fleet.Volref{}) {
			return &v, nil
		}
		return (*fleet.Volref)(nil), nil
	}, (*fleet.Volref)(nil))
	return d
}

func newSpecEncoder() *form.Encoder {
	e := form.NewEncoder()
	e.SetTagName("json")
	e.RegisterCustomTypeFunc(func(v any) ([]string, error) { return []string{gib(v.(int64))}, nil }, int64(0))
	e.RegisterCustomTypeFunc(func(v any) ([]string, error) {
		ref := v.(fleet.Volref)
		return []string{vmview.Volume(ref.PoolID, ref.Volume)}, nil
	}, fleet.Volref{})
	return e
}

// rowLists are the lists of a spec that a form sends as rows.
var rowLists = func() []string {
	out := []string{"spec.nics", "spec.disks", "spec.rules", "spec.health"}
	for _, l := range fleet.VMLists {
		out = append(out, "spec."+l.Name)
	}
	return out
}()

// specOf returns the spec with the valid values of the form. Fields that the form lacks stay unchanged.
func specOf(checks *fleet.Checks, typed url.Values, spec fleet.VMSpec) fleet.VMSpec {
	into := specForm{spec}
	if typed.Has("spec.iso") {
		into.Spec.ISO = nil
	}
	for _, f := range fleet.VMFields {
		if name := "spec." + f.Name; slices.Contains(rowLists, name) && typed.Has(name) {
			f.Copy(&into.Spec, fleet.VMSpec{})
		}
	}
	for name := range typed { // a submitted select replaces the old value, also when it is empty
		if k := strings.TrimPrefix(name, "spec.boot."); k == "kernel" {
			into.Spec.Boot.Kernel = nil
		} else if k == "initrd" {
			into.Spec.Boot.Initrd = nil
		}
	}
	values := maps.Clone(typed)
	maps.DeleteFunc(values, func(name string, _ []string) bool {
		return !specKey.MatchString(name) || slices.Contains(rowLists, name)
	})
	if wrong, ok := errors.AsType[form.DecodeErrors](specDecoder.Decode(&into, values)); ok {
		for _, field := range slices.Sorted(maps.Keys(wrong)) {
			checks.Add(field, "%s", wrong[field])
		}
	}
	out := into.Spec
	out.Power = spec.Power   // power is changed by actions, not by the form
	for i := range maxRows { // the row of a kept disk may have no other fields
		if typed.Has(fmt.Sprintf("spec.disks[%d].keep", i)) && i == len(out.Disks) {
			out.Disks = append(out.Disks, fleet.Disk{})
		}
	}
	keepDisks(out.Disks, spec.Disks, typed)
	for i := range out.Disks {
		source := typed[fmt.Sprintf("spec.disks[%d].source", i)]
		switch d := &out.Disks[i]; {
		case len(source) == 0: // not a disk of the form
		case source[0] == "lun":
			lun := volumeOf(typed.Get(fmt.Sprintf("spec.disks[%d].lun", i)))
			there := fleet.Disk{PoolID: lun.PoolID, Volume: lun.Volume, Existing: true}
			for _, f := range fleet.DiskFields {
				f.Copy(&there, *d)
			}
			*d = there
		case source[0] == "clone": // the original determines the size
			d.Volume, d.Image, d.Existing, d.SizeBytes = "", nil, false, 1
		case source[0] != "image" && source[0] != "overlay":
			d.Image = nil
		case d.Image == nil:
			d.Image = &fleet.Volref{}
		default:
			d.Overlay = source[0] == "overlay"
			if image, version, ok := vmview.LibraryImageOf(d.Image.PoolID); ok {
				d.Image, d.ImageID, d.VersionID = nil, image, version
			}
		}
	}
	for i := range out.Health { // clears the fields that the form hides for this kind
		h := &out.Health[i]
		if h.Kind != fleet.HealthExec {
			h.Program, h.Args = "", ""
		}
		h.Program, h.Args = strings.TrimSpace(h.Program), strings.Join(fleet.ArgLines(h.Args), "\n")
		if h.Kind != fleet.HealthHTTP {
			h.Path, h.Status = "", 0
		}
		if h.Kind != fleet.HealthHTTP && h.Kind != fleet.HealthTCP {
			h.Port = 0
		}
	}
	for i := range out.Rules {
		out.Rules[i].Name = strings.TrimSpace(out.Rules[i].Name)
	}
	for i := range out.NICs {
		n := &out.NICs[i]
		n.MAC = strings.TrimSpace(n.MAC)
		if kind, name, ok := strings.Cut(n.Network, ":"); ok {
			n.Network, n.PortGroup, _ = strings.Cut(name, "/")
			if fleet.NetworkKind(kind) == fleet.NetworkBridge {
				n.Network, n.Bridge = "", name
			}
		}
	}
	return out
}

// keepDisks maps rows of existing disks to these disks, with the typed values of their fields.
func keepDisks(disks, was []fleet.Disk, typed url.Values) {
	for i := range disks {
		at := fmt.Sprintf("spec.disks[%d].", i)
		k := slices.IndexFunc(was, func(d fleet.Disk) bool { return typed.Get(at+"keep") == vmview.Volume(d.PoolID, d.Volume) })
		if k < 0 {
			continue
		}
		kept := was[k]
		for _, f := range fleet.DiskFields {
			if typed.Has(at + f.Name) {
				f.Copy(&kept, disks[i])
			}
		}
		disks[i] = kept
	}
}

// typedOf returns the form's values for the current VM.
func typedOf(vm fleet.VMView) (url.Values, error) {
	typed, err := specEncoder.Encode(specForm{vm.Spec})
	if err != nil {
		return nil, fmt.Errorf("write the spec of %s as a form: %w", vm.ID, err)
	}
	typed["spec.memoryMiB"] = memoryText(vm.Spec.MemoryMiB)
	for i, n := range vm.Spec.NICs {
		at := fmt.Sprintf("spec.nics[%d].", i)
		typed.Set(at+"network", string(fleet.NetworkLibvirt)+":"+n.Network)
		if n.Bridge != "" {
			typed.Set(at+"network", string(fleet.NetworkBridge)+":"+n.Bridge)
		}
		if n.PortGroup != "" {
			typed.Set(at+"network", string(fleet.NetworkLibvirt)+":"+n.Network+"/"+n.PortGroup)
		}
		typed.Del(at + "portGroup")
		typed.Del(at + "bridge")
	}
	for i, d := range vm.Spec.Disks {
		typed.Set(fmt.Sprintf("spec.disks[%d].keep", i), vmview.Volume(d.PoolID, d.Volume))
	}
	for i, v := range vm.Spec.Shares {
		at := fmt.Sprintf("spec.shares[%d].folder", i)
		typed.Del(at)
		typed.Set(at+".poolId", string(v.Folder.PoolID))
		typed.Set(at+".volume", v.Folder.Volume)
	}
	typed.Set("name", vm.Name)
	typed.Set("labels", kit.LabelText(vm.Labels))
	typed.Set("description", vm.Description)
	typed.Set("was", wasOf(vm.VM))
	typed.Set("generation", strconv.FormatInt(vm.Generation, 10))
	return typed, nil
}

// typedVM is a submitted VM form.
type typedVM struct {
	url.Values
	sent  url.Values // as the page sent it: with gaps between the rows
	again bool       // only redraws the form: a browser without scripts adds or removes a row

	begin   string            // what to prefill the form from: see Server.beginAs
	notes   []vmview.Imported // notes about the imported definition, and what cannot be imported
	wasRead bool
}

func (in *typedVM) read(sent url.Values) {
	if drop := sent.Get("drop"); drop != "" {
		maps.DeleteFunc(sent, func(name string, _ []string) bool { return strings.HasPrefix(name, drop+".") })
		in.again = true
	}
	in.Values, in.sent = inRows(sent), sent
	if in.begin = sent.Get("begin"); in.begin != "" {
		in.again = true
	}
	if list := sent.Get("add"); list != "" {
		addRow(in.Values, list)
		in.again = true
	}
}

// addRow adds a row to a list of the form.
func addRow(typed url.Values, list string) {
	n := 0
	for name := range typed {
		if m := rowKey.FindStringSubmatch(name); m != nil && m[1] == list {
			i, _ := strconv.Atoi(m[2])
			n = max(n, i+1)
		}
	}
	switch at := fmt.Sprintf("%s[%d]", list, n); list {
	case "spec.disks":
		typed.Set(at+".source", "empty")
		typed.Set(at+".sizeBytes", "20")
	case "spec.nics":
		typed.Set(at+".mac", "")
	case "spec.rules":
		typed.Set(at+".of", string(fleet.RuleVM))
	case "spec.health":
		typed.Set(at+".kind", string(fleet.HealthAgent))
	default:
		for _, l := range fleet.VMLists {
			if list == "spec."+l.Name {
				typed.Set(at+"."+l.Input.Rows[0].Name, "")
			}
		}
	}
}

var rowKey = regexp.MustCompile(`^(spec\.[A-Za-z]+)\[([0-9]{1,9})\](\..+)$`)

// inRows renumbers the rows: removed rows leave gaps in browsers, and empty rows are dropped.
func inRows(sent url.Values) url.Values {
	out := url.Values{}
	rows := map[string]map[int]bool{}
	each := func(do func(list string, i int, rest string, texts []string)) {
		for name, texts := range sent {
			if m := rowKey.FindStringSubmatch(name); m != nil {
				i, _ := strconv.Atoi(m[2])
				do(m[1], i, m[3], texts)
			}
		}
	}
	each(func(list string, i int, _ string, texts []string) {
		if rows[list] == nil {
			rows[list] = map[int]bool{}
		}
		rows[list][i] = rows[list][i] || slices.ContainsFunc(texts, func(text string) bool { return text != "" && text != "false" })
	})
	numbers := map[string]map[int]int{}
	for list, filled := range rows {
		numbers[list] = map[int]int{}
		for _, i := range slices.Sorted(maps.Keys(filled)) {
			if filled[i] {
				numbers[list][i] = len(numbers[list])
			}
		}
	}
	each(func(list string, i int, rest string, texts []string) {
		if n, ok := numbers[list][i]; ok {
			out[fmt.Sprintf("%s[%d]%s", list, n, rest)] = texts
		}
	})
	for name, texts := range sent {
		if !rowKey.MatchString(name) {
			out[name] = texts
		}
	}
	return out
}

// numberOf parses a number; empty is 0.
func numberOf(text string) (int, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("Give a whole number.")
	}
	return n, nil
}

// memoryText formats a size in GiB if that is a whole number, else in MiB.
func memoryText(mib int) []string {
	if mib%1024 == 0 {
		return []string{strconv.Itoa(mib / 1024), "GiB"}
	}
	return []string{strconv.Itoa(mib), "MiB"}
}

// memoryOf parses a size and returns MiB; fractions such as "1.5" GiB are allowed.
func memoryOf(text, unit string) (int, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if unit != "MiB" {
		n *= 1024
	}
	if err != nil || math.IsNaN(n) || n < 0 || n > fleet.MaxMemoryMiB || n != math.Trunc(n) {
		return 0, fmt.Errorf("Give the memory as a number of GiB or MiB, up to %d TiB.", fleet.MaxMemoryMiB>>20)
	}
	return int(n), nil
}

// sizeOf parses a disk size in GiB and returns bytes; empty is 0.
func sizeOf(text string) (int64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > fleet.MaxDiskBytes>>30 {
		return 0, fmt.Errorf("Give the size as a number of GiB, up to %d TiB.", fleet.MaxDiskBytes>>40)
	}
	return int64(n * (1 << 30)), nil
}

// gib formats bytes for sizeOf.
func gib(n int64) string { return strconv.FormatFloat(float64(n)/(1<<30), 'f', -1, 64) }

// volumeOf parses a choice made by vmview.Volume; empty is the zero Volref.
func volumeOf(value string) fleet.Volref {
	pool, volume, _ := strings.Cut(value, "/")
	return fleet.Volref{PoolID: fleet.PoolID(pool), Volume: volume}
}
