package libvirt

import (
	"maps"
	"slices"
	"strings"
	"testing"

	golibvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// The input is the XML of capabilities as recorded from libvirt 9.0 and later.
func TestConfidentialGapsFollowCapabilities(t *testing.T) {
	t.Parallel()
	const (
		none  = `<sev supported='no'/><sgx supported='no'/>`
		milan = `<sev supported='yes'><cbitpos>51</cbitpos><reducedPhysBits>1</reducedPhysBits><maxGuests>410</maxGuests><maxESGuests>99</maxESGuests></sev>`
		rome  = `<sev supported='yes'><cbitpos>47</cbitpos><reducedPhysBits>1</reducedPhysBits><maxGuests>15</maxGuests><maxESGuests>0</maxESGuests></sev>`
		ways  = `<launchSecurity supported='yes'><enum name='sectype'><value>sev</value><value>sev-snp</value></enum></launchSecurity>`
		tdx   = `<launchSecurity supported='yes'><enum name='sectype'><value>tdx</value></enum></launchSecurity>`
	)
	for name, c := range map[string]struct {
		domain, features string
		version          uint64
		gaps             map[string]string // a part of each gap's text
	}{
		"no support":              {"kvm", none, 9_000_000, map[string]string{"sev": "finds no AMD SEV", "sev-es": "finds no AMD SEV", "sev-snp": "libvirt 10.5. This host has 9.0", "tdx": "libvirt 11.6"}},
		"no KVM":                  {"qemu", none, 9_000_000, map[string]string{"sev": "needs KVM", "sev-es": "needs KVM", "sev-snp": "10.5", "tdx": "11.6"}},
		"an older libvirt":        {"kvm", "", 9_000_000, map[string]string{"sev": "finds no", "sev-es": "finds no", "sev-snp": "10.5", "tdx": "11.6"}},
		"SEV-ES":                  {"kvm", milan, 9_000_000, map[string]string{"sev-snp": "10.5", "tdx": "11.6"}},
		"SEV only":                {"kvm", rome, 9_000_000, map[string]string{"sev-es": "reserves no ASIDs", "sev-snp": "10.5", "tdx": "11.6"}},
		"SNP":                     {"kvm", milan + ways, 10_005_000, map[string]string{"tdx": "11.6. This host has 10.5"}},
		"SNP is off":              {"kvm", milan, 12_001_000, map[string]string{"sev-snp": "finds no AMD SEV-SNP", "tdx": "finds no Intel TDX"}},
		"TDX":                     {"kvm", none + tdx, 11_006_000, map[string]string{"sev": "finds no", "sev-es": "finds no", "sev-snp": "finds no AMD SEV-SNP"}},
		"TDX of an older libvirt": {"kvm", none + tdx, 11_005_000, map[string]string{"sev": "finds no", "sev-es": "finds no", "sev-snp": "finds no", "tdx": "11.6"}},
	} {
		var x libvirtxml.DomainCaps
		if err := x.Unmarshal("<domainCapabilities><domain>" + c.domain + "</domain><features>" + c.features + "</features></domainCapabilities>"); err != nil {
			t.Fatal(err)
		}
		got := encryptionGapsByKind(x, c.version)
		maps.DeleteFunc(got, func(_, why string) bool { return why == "" })
		if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(c.gaps)); !slices.Equal(a, b) {
			t.Errorf("%s: the host lacks %q, want %q", name, a, b)
		}
		for way, why := range c.gaps {
			if !strings.Contains(got[way], why) {
				t.Errorf("%s: no %s, because %q, want %q", name, way, got[way], why)
			}
		}
	}
}

// The test decodes recorded answers of libvirt. Unexpected parameters and values are ignored.
func TestLaunchInfoIgnoresUnexpectedParameters(t *testing.T) {
	t.Parallel()
	text := func(field, v string) golibvirt.TypedParam {
		return golibvirt.TypedParam{Field: field, Value: *golibvirt.NewTypedParamValueString(v)}
	}
	small := func(field string, v uint32) golibvirt.TypedParam {
		return golibvirt.TypedParam{Field: field, Value: *golibvirt.NewTypedParamValueUint(v)}
	}
	const measured = "LMnv8i8N2QejezMPkscShF0cyPYCslgUoCxGWRqQuyt0Q0aUjVkH/T6NcmkwZkWp"
	for name, c := range map[string]struct {
		kind   string
		answer []golibvirt.TypedParam
		want   fleet.LaunchInfo
	}{
		"SEV-ES": {
			"sev-es",
			[]golibvirt.TypedParam{text("sev-measurement", measured), small("sev-api-major", 1), small("sev-api-minor", 55), small("sev-build-id", 21), small("sev-policy", 7)},
			fleet.LaunchInfo{Kind: "sev-es", Measurement: measured, APIMajor: 1, APIMinor: 55, BuildID: 21, Policy: 7},
		},
		"an older libvirt": {"sev", []golibvirt.TypedParam{text("sev-measurement", measured)}, fleet.LaunchInfo{Kind: "sev", Measurement: measured}},
		"SNP": {
			"sev-snp",
			[]golibvirt.TypedParam{{Field: "sev-snp-policy", Value: *golibvirt.NewTypedParamValueUllong(0x30000)}, small("sev-api-major", 1)},
			fleet.LaunchInfo{Kind: "sev-snp", Policy: 0x30000, APIMajor: 1},
		},
		"no support":               {"tdx", nil, fleet.LaunchInfo{Kind: "tdx"}},
		"unknown field":            {"sev", []golibvirt.TypedParam{text("sev-new", "x"), small("sev-policy", 3)}, fleet.LaunchInfo{Kind: "sev", Policy: 3}},
		"text instead of a number": {"sev", []golibvirt.TypedParam{text("sev-policy", "all"), text("sev-build-id", "-1")}, fleet.LaunchInfo{Kind: "sev"}},
		"number instead of text":   {"sev", []golibvirt.TypedParam{small("sev-measurement", 3)}, fleet.LaunchInfo{Kind: "sev"}},
		"oversized measurement":    {"sev", []golibvirt.TypedParam{text("sev-measurement", strings.Repeat("A", 257))}, fleet.LaunchInfo{Kind: "sev"}},
		"number out of range":      {"sev", []golibvirt.TypedParam{{Field: "sev-build-id", Value: *golibvirt.NewTypedParamValueUllong(1 << 63)}}, fleet.LaunchInfo{Kind: "sev", BuildID: 1<<31 - 1}},
	} {
		if diff := cmp.Diff(c.want, *parseLaunchInfo(c.kind, c.answer)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
