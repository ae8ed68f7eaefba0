package web_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

var boundsErrorText = regexp.MustCompile(`^Enter a whole number from (\d+) to (\d+), or leave the field empty\.$`)

// specErrorAt returns the error message at a field after validation of the spec; "" if the field is valid.
func specErrorAt(s fleet.VMSpec, at string) (out string) {
	var c fleet.Checks
	s.Check(&c, "spec")
	if e, ok := c.Err().(*fleet.Error); ok { //nolint:errorlint // always a *fleet.Error
		for _, f := range e.Fields {
			if f.Field == at {
				return f.Message
			}
		}
	}
	return ""
}

// hostileTexts maps a description to each text that all text fields must refuse.
var hostileTexts = map[string]string{
	"markup": `x'/><evil a="`, "a CDATA end": "x]]>", "NUL": "x\x00", "a bidirectional control character": "x\u202ey", "two lines": "x\ny", "an option and a command": "-x;id", "a path traversal": "../../etc/x",
}

// fieldCases returns cases with values that the field must refuse. at is the field's path. setField returns a spec with
// the field set to a value in JSON.
func fieldCases(t *testing.T, at string, input fleet.FormInput, setField func(value string) fleet.VMSpec) (out []refusal) {
	t.Helper()
	add := func(what string, value any, says string) {
		out = append(out, refusal{what: at + ": " + what, sent: requestValues{at: value}, says: says})
	}
	switch input.Kind {
	case fleet.InputNumber:
		says := specErrorAt(setField("1099511627776"), at)
		m := boundsErrorText.FindStringSubmatch(says)
		if m == nil {
			t.Fatalf("%s: the message %q contains no bounds", at, says)
		}
		least, _ := strconv.Atoi(m[1])
		most, _ := strconv.Atoi(m[2])
		below := -1
		if least > 1 {
			below = least - 1
		}
		add("below the minimum", below, says)
		add("above the maximum", most+1, says)
	case fleet.InputChoice:
		var all []string
		for _, o := range input.Options[1:] {
			all = append(all, o.Value)
		}
		if input.DefaultName != "" {
			all = append(all, input.DefaultName)
		}
		says := fmt.Sprintf("Choose one of %s, or leave the field empty.", strings.Join(all, ", "))
		add("a word that is none", "no-such", says)
		add("the end of a section", all[0]+"]]>", says)
	case fleet.InputText:
		says := specErrorAt(setField(`"\u0000"`), at)
		if says == "" {
			t.Fatalf("%s accepts NUL", at)
		}
		for what, value := range hostileTexts {
			if at == "spec.boot.cmdline" && !strings.ContainsAny(value, "\x00\u202e\n") {
				continue // the kernel's command line may contain any printable text, which libvirt XML escapes
			}
			add(what, value, says)
		}
	case fleet.InputFlag, fleet.InputMedium, fleet.InputFile, fleet.InputPool, fleet.InputDeviceClass, fleet.InputRows:
	}
	return out
}

// fieldTableCases returns cases for all fields in the tables of package fleet, so that new fields are covered
// automatically.
func (r *refusalPortal) fieldTableCases(t *testing.T) (out []refusal) {
	t.Helper()
	base := func() fleet.VMSpec {
		return fleet.VMSpec{
			CPUs: 2, MemoryMiB: 1024, Firmware: fleet.UEFI, Power: fleet.Stopped, Disks: []fleet.Disk{{PoolID: r.stored, SizeBytes: 1 << 30}},
			NICs: []fleet.NIC{{Network: "default"}}, Drives: []fleet.VMDrive{{Slot: "cdrom2"}},
		}
	}
	taken := func(err error, at string) {
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
	}
	for _, f := range fleet.OptionalFields() {
		if f.Input.Section == "" {
			continue // lists of rows: the functions for devices and policies return their cases
		}
		out = append(out, fieldCases(t, "spec."+f.Name, f.Input, func(v string) fleet.VMSpec { s := base(); taken(f.Decode(&s, []byte(v)), f.Name); return s })...)
	}
	for _, f := range fleet.DiskFields {
		out = append(out, fieldCases(t, "spec.disks[0]."+f.Name, f.Input, func(v string) fleet.VMSpec { s := base(); taken(f.Decode(&s.Disks[0], []byte(v)), f.Name); return s })...)
	}
	for _, f := range fleet.NICFields {
		out = append(out, fieldCases(t, "spec.nics[0]."+f.Name, f.Input, func(v string) fleet.VMSpec { s := base(); taken(f.Decode(&s.NICs[0], []byte(v)), f.Name); return s })...)
	}
	for _, f := range fleet.DriveFields {
		if f.Input.Kind != fleet.InputNumber {
			continue
		}
		for _, c := range fieldCases(t, "spec.drives[0]."+f.Name, f.Input, func(v string) fleet.VMSpec { s := base(); taken(f.Decode(&s.Drives[0], []byte(v)), f.Name); return s }) {
			c.at, c.sent["spec.drives[0].slot"] = "spec.drives[0]."+f.Name, "cdrom2"
			out = append(out, c)
		}
	}
	return out
}
