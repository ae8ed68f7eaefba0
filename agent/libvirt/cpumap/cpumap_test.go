package cpumap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// recordedCPUMap reads files of the CPU map of libvirt 9.0.
func recordedCPUMap(file string) ([]byte, error) {
	return os.ReadFile(filepath.Join("testdata", "cpu_map", file)) //nolint:gosec // a test's file
}

// domainCaps returns domain capabilities of a host with the model Westmere, without the feature aes and with avx.
func domainCaps(t *testing.T, arch, custom string) libvirtxml.DomainCaps {
	t.Helper()
	var x libvirtxml.DomainCaps
	err := x.Unmarshal(`<domainCapabilities><arch>` + arch + `</arch><cpu>
		<mode name='host-model' supported='yes'><model fallback='forbid'>Westmere</model><vendor>Intel</vendor>
			<feature policy='require' name='avx'/><feature policy='disable' name='aes'/></mode>
		<mode name='custom' supported='yes'>` + custom + `</mode></cpu></domainCapabilities>`)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestCPUModelGapsNameMissingFeatures(t *testing.T) {
	t.Parallel()
	const haswell = `<model usable='yes'>Westmere</model><model usable='no'>Haswell-noTSX</model>`
	noMap := func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	for name, c := range map[string]struct {
		arch, custom string
		read         func(string) ([]byte, error)
		want         string
	}{
		"from the map": {
			"x86_64", haswell, recordedCPUMap,
			"Haswell-noTSX: aes avx2 bmi1 bmi2 erms fma fsgsbase invpcid movbe pcid pclmuldq rdtscp smep tsc-deadline x2apic xsave",
		},
		"from libvirt 10.3": {"x86_64", haswell + `<blockers model='Haswell-noTSX'><feature name='erms'/><feature name='avx2'/></blockers>`, noMap, "Haswell-noTSX: avx2 erms"},
		"with a parent":     {"x86_64", `<model usable='no'>Child</model>`, recordedCPUMap, "Child: aes"},
		"no map":            {"x86_64", haswell, noMap, "Haswell-noTSX: "},
		"broken map":        {"x86_64", haswell, func(string) ([]byte, error) { return []byte("<cpus><model"), nil }, "Haswell-noTSX: "},
		"unknown model":     {"x86_64", `<model usable='no'>../../etc/passwd</model>`, recordedCPUMap, "../../etc/passwd: "},
		"unknown usability": {"x86_64", `<model usable='unknown'>Haswell-noTSX</model>`, recordedCPUMap, ""},
		"other machine":     {"aarch64", `<model usable='no'>Haswell-noTSX</model>`, recordedCPUMap, "Haswell-noTSX: "},
	} {
		var got []string
		for _, g := range Gaps(domainCaps(t, c.arch, c.custom), c.read) {
			got = append(got, g.Model+": "+strings.Join(g.Missing, " "))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
	if got := Gaps(libvirtxml.DomainCaps{}, recordedCPUMap); got != nil {
		t.Errorf("without CPU modes: %v", got)
	}
}

// A report stays small, however many models the host does not support.
func TestCPUModelGapsAreBounded(t *testing.T) {
	t.Parallel()
	var custom strings.Builder
	for i := range 2 * fleet.MaxCPUModelGaps {
		fmt.Fprintf(&custom, "<model usable='no'>Model-%d</model><blockers model='Model-%d'>", i, i)
		for k := range 3 * fleet.MaxMissingFeatures {
			fmt.Fprintf(&custom, "<feature name='f%d'/>", k)
		}
		custom.WriteString("</blockers>")
	}
	got := Gaps(domainCaps(t, "x86_64", custom.String()), func(string) ([]byte, error) { return nil, errors.New("not read") })
	if len(got) != fleet.MaxCPUModelGaps || len(got[0].Missing) != fleet.MaxMissingFeatures {
		t.Errorf("%d gaps with %d features", len(got), len(got[0].Missing))
	}
}
