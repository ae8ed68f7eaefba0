package vmpages

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

	playform "github.com/go-playground/form/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// specDecoder and specEncoder convert between the form and a VM spec. The form's fields have the names of the API's
// fields, such as "spec.cpus". This file converts only values that users write differently: memory as a number with a
// unit, sizes in GiB, a volume or network as one option of a select.
var specDecoder, specEncoder = newSpecDecoder(), newSpecEncoder()

var specKeyPattern = regexp.MustCompile(`^spec(\.[A-Za-z]+(\[[0-9]{1,3}\])?)+$`)

type specForm struct {
	Spec fleet.VMSpec `json:"spec"`
}

func newSpecDecoder() *playform.Decoder {
	d := playform.NewDecoder()
	d.SetTagName("json")
	d.SetMaxArraySize(form.MaxRows)
	d.RegisterCustomTypeFunc(func(texts []string) (any, error) {
		if len(texts) > 1 {
			return parseMemory(texts[0], texts[1])
		}
		return form.ParseNumber(texts[0])
	}, 0)
	// A checkbox field always sends the value of its hidden input, and a ticked checkbox sends a second value.
	d.RegisterCustomTypeFunc(func(texts []string) (any, error) {
		return slices.Contains(texts, "yes") || slices.Contains(texts, "true"), nil
	}, false)
	d.RegisterCustomTypeFunc(func(texts []string) (any, error) { return form.ParseDiskSize(texts[0]) }, int64(0))
	d.RegisterCustomTypeFunc(func(texts []string) (any, error) {
		if v := form.ParseVolumeValue(texts[0]); v != (fleet.Volref{}) {
			return &v, nil
		}
		return (*fleet.Volref)(nil), nil
	}, (*fleet.Volref)(nil))
	return d
}

func newSpecEncoder() *playform.Encoder {
	e := playform.NewEncoder()
	e.SetTagName("json")
	e.RegisterCustomTypeFunc(func(v any) ([]string, error) { return []string{form.GiBText(v.(int64))}, nil }, int64(0))
	e.RegisterCustomTypeFunc(func(v any) ([]string, error) {
		ref := v.(fleet.Volref)
		return []string{vmview.VolumeValue(ref.PoolID, ref.Volume)}, nil
	}, fleet.Volref{})
	return e
}

// formRowLists holds the names of the spec's lists that the form shows as rows, such as "spec.disks".
var formRowLists = func() []string {
	out := []string{"spec.nics", "spec.disks", "spec.rules", "spec.health"}
	for _, l := range fleet.VMLists {
		out = append(out, "spec."+l.Name)
	}
	return out
}()

// specFromForm returns spec with the valid values of the form. Fields that the form lacks are unchanged. It adds an
// error to checks for each invalid value.
func specFromForm(checks *fleet.Checks, typed url.Values, spec fleet.VMSpec) fleet.VMSpec {
	into := specForm{spec}
	if typed.Has("spec.iso") {
		into.Spec.ISO = nil
	}
	for _, f := range fleet.VMFields {
		if name := "spec." + f.Name; slices.Contains(formRowLists, name) && typed.Has(name) {
			f.Copy(&into.Spec, fleet.VMSpec{})
		}
	}
	for name := range typed { // a select without a choice also replaces the spec's value
		if k := strings.TrimPrefix(name, "spec.boot."); k == "kernel" {
			into.Spec.Boot.Kernel = nil
		} else if k == "initrd" {
			into.Spec.Boot.Initrd = nil
		}
	}
	values := maps.Clone(typed)
	maps.DeleteFunc(values, func(name string, _ []string) bool {
		return !specKeyPattern.MatchString(name) || slices.Contains(formRowLists, name)
	})
	if wrong, ok := errors.AsType[playform.DecodeErrors](specDecoder.Decode(&into, values)); ok {
		for _, field := range slices.Sorted(maps.Keys(wrong)) {
			checks.Add(field, "%s", wrong[field])
		}
	}
	out := into.Spec
	out.Power = spec.Power        // power is changed by actions, not by the form
	for i := range form.MaxRows { // the row of an existing disk may have no other fields
		if typed.Has(fmt.Sprintf("spec.disks[%d].keep", i)) && i == len(out.Disks) {
			out.Disks = append(out.Disks, fleet.Disk{})
		}
	}
	restoreOmittedDiskFields(out.Disks, spec.Disks, typed)
	for i := range out.Disks {
		source := typed[fmt.Sprintf("spec.disks[%d].source", i)]
		switch d := &out.Disks[i]; {
		case len(source) == 0: // an existing disk
		case source[0] == "lun":
			lun := form.ParseVolumeValue(typed.Get(fmt.Sprintf("spec.disks[%d].lun", i)))
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
			if image, version, ok := vmview.ParseLibraryImageValue(d.Image.PoolID); ok {
				d.Image, d.ImageID, d.VersionID = nil, image, version
			}
		}
	}
	for i := range out.Health { // clear the fields that the form hides for this kind of check
		h := &out.Health[i]
		if h.Kind != fleet.HealthExec {
			h.Program, h.Args = "", ""
		}
		h.Program, h.Args = strings.TrimSpace(h.Program), strings.Join(fleet.SplitArgLines(h.Args), "\n")
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

// restoreOmittedDiskFields completes the disks of the form that are existing disks. All values come from the same disk in was,
// except the fields that the form has.
func restoreOmittedDiskFields(disks, was []fleet.Disk, typed url.Values) {
	for i := range disks {
		at := fmt.Sprintf("spec.disks[%d].", i)
		k := slices.IndexFunc(was, func(d fleet.Disk) bool { return typed.Get(at+"keep") == vmview.VolumeValue(d.PoolID, d.Volume) })
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

// editFormValues returns the values of the edit form for the VM.
func editFormValues(vm fleet.VMView) (url.Values, error) {
	typed, err := specEncoder.Encode(specForm{vm.Spec})
	if err != nil {
		return nil, fmt.Errorf("encode the spec of %s as a form: %w", vm.ID, err)
	}
	typed["spec.memoryMiB"] = memoryFormValues(vm.Spec.MemoryMiB)
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
		typed.Set(fmt.Sprintf("spec.disks[%d].keep", i), vmview.VolumeValue(d.PoolID, d.Volume))
	}
	for i, v := range vm.Spec.Shares {
		at := fmt.Sprintf("spec.shares[%d].folder", i)
		typed.Del(at)
		typed.Set(at+".poolId", string(v.Folder.PoolID))
		typed.Set(at+".volume", v.Folder.Volume)
	}
	typed.Set("name", vm.Name)
	typed.Set("labels", kit.LabelLines(vm.Labels))
	typed.Set("description", vm.Description)
	typed.Set("was", encodeEditableVM(vm.VM))
	typed.Set("generation", strconv.FormatInt(vm.Generation, 10))
	return typed, nil
}

// vmForm is a submitted VM form, with its rows renumbered without gaps.
type vmForm struct {
	url.Values
	sentValues url.Values // the values from the browser, with gaps between row numbers
	redrawOnly bool       // the button only redraws the form: to add or remove a row without JavaScript, or to prefill

	prefillKey  string              // key of the source or preset that prefills the form: see Site.prefillNewVM
	notes       []vmview.ImportNote // notes about the pasted definition, such as settings that are not imported
	xmlImported bool
}

// ReadForm sets the form to the values that the browser sent.
func (in *vmForm) ReadForm(sent url.Values) {
	if drop := sent.Get("drop"); drop != "" {
		maps.DeleteFunc(sent, func(name string, _ []string) bool { return strings.HasPrefix(name, drop+".") })
		in.redrawOnly = true
	}
	in.Values, in.sentValues = renumberFormRows(sent), sent
	if in.prefillKey = sent.Get("begin"); in.prefillKey != "" {
		in.redrawOnly = true
	}
	if list := sent.Get("add"); list != "" {
		addFormRow(in.Values, list)
		in.redrawOnly = true
	}
}

// addFormRow appends a row with default values to a list of the form, such as "spec.disks".
func addFormRow(typed url.Values, list string) {
	n := 0
	for name := range typed {
		if m := rowKeyPattern.FindStringSubmatch(name); m != nil && m[1] == list {
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

var rowKeyPattern = regexp.MustCompile(`^(spec\.[A-Za-z]+)\[([0-9]{1,9})\](\..+)$`)

// renumberFormRows returns the values with the rows of each list renumbered from 0. Rows that were removed in the
// browser leave gaps in the numbers. Rows without values are dropped.
func renumberFormRows(sent url.Values) url.Values {
	out := url.Values{}
	rows := map[string]map[int]bool{}
	each := func(do func(list string, i int, rest string, texts []string)) {
		for name, texts := range sent {
			if m := rowKeyPattern.FindStringSubmatch(name); m != nil {
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
		if !rowKeyPattern.MatchString(name) {
			out[name] = texts
		}
	}
	return out
}

// memoryFormValues returns the form's number and unit for a memory size: in GiB if that is a whole number, else in MiB.
func memoryFormValues(mib int) []string {
	if mib%1024 == 0 {
		return []string{strconv.Itoa(mib / 1024), "GiB"}
	}
	return []string{strconv.Itoa(mib), "MiB"}
}

// parseMemory parses a memory size and returns MiB. Fractions such as "1.5" GiB are allowed.
func parseMemory(text, unit string) (int, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if unit != "MiB" {
		n *= 1024
	}
	if err != nil || math.IsNaN(n) || n < 0 || n > fleet.MaxMemoryMiB || n != math.Trunc(n) {
		return 0, fmt.Errorf("Give the memory as a number of GiB or MiB, up to %d TiB.", fleet.MaxMemoryMiB>>20)
	}
	return int(n), nil
}
