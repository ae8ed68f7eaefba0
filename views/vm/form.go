package vm

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Form is a form that makes or edits a VM. Its fields have the names that the API has for them, and so has what is wrong.
type Form struct {
	Typed         url.Values // as they are shown; of the memory, a number and its unit
	Errors        kit.Errors
	Edits         bool // a VM that is there, else a new one
	On            bool // and its guest is on
	MayOvercommit bool // see control.CreateVM

	Projects, Hosts, Pools, Images, ISOs, Networks kit.Choices
}

// field is one input with what is typed in it, what is wrong with it or below it, and from when on an edit of it counts.
func (f Form) field(name string, in kit.Field) kit.Field {
	in.Name = name
	if texts := f.Typed[name]; len(texts) > 0 {
		in.Value = texts[0]
	}
	if in.Error == "" {
		in.Error = f.Errors.Under(name)
	}
	if of, ok := fleet.FieldOf(strings.TrimPrefix(name, "spec.")); f.Edits && !strings.Contains(name, "[") {
		in.When = fleet.Now
		if ok && f.On {
			in.When = of.On
		}
	}
	return in
}

// unit is that of the memory that is typed.
func (f Form) unit() string {
	if texts := f.Typed["spec.memoryMiB"]; len(texts) > 1 {
		return texts[1]
	}
	return "GiB"
}

// rows are the numbers of a list's rows.
func (f Form) rows(list string) []string {
	var out []string
	for name := range f.Typed {
		rest, ok := strings.CutPrefix(name, list+"[")
		number, _, closed := strings.Cut(rest, "]")
		if n, err := strconv.Atoi(number); ok && closed && err == nil {
			for len(out) <= n {
				out = append(out, strconv.Itoa(len(out)))
			}
		}
	}
	return out
}

// Volume is a volume as a choice's value.
func Volume(pool fleet.PoolID, volume string) string { return string(pool) + "/" + volume }

var firmwares = []kit.Option{{Value: "uefi", Text: "UEFI"}, {Value: "bios", Text: "BIOS"}}

var units = []kit.Option{{Value: "GiB", Text: "GiB"}, {Value: "MiB", Text: "MiB"}}

var diskSources = []kit.Option{{Value: "empty", Text: "Empty disk"}, {Value: "image", Text: "Copy of an image"}}

// first is the first of some fields' errors.
func first(e kit.Errors, paths ...string) string {
	for _, p := range paths {
		if text := e.At(p); text != "" {
			return text
		}
	}
	return ""
}

// firmware is the choice of it, closed while a guest would have to be off.
func (f Form) firmware() kit.Field {
	in := kit.Field{Label: "Firmware"}
	if of, ok := fleet.FieldOf("firmware"); ok && f.On && of.On == fleet.PowerOff {
		in.Attrs = templ.Attributes{"disabled": true}
	}
	return in
}
