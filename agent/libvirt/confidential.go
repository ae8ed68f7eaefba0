package libvirt

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// encryptionGapsByKind returns, by kind, the reasons why this host cannot encrypt the memory of guests.
func encryptionGapsByKind(x libvirtxml.DomainCaps, version uint64) map[string]string {
	gaps := map[string]string{}
	sev, ways := (*libvirtxml.DomainCapsFeatureSEV)(nil), []string(nil)
	if f := x.Features; f != nil {
		if f.SEV != nil && f.SEV.Supported == "yes" {
			sev = f.SEV
		}
		if l := f.LaunchSecurity; l != nil && l.Supported == "yes" {
			for _, e := range l.Enums {
				if e.Name == "sectype" {
					ways = append(ways, e.Values...)
				}
			}
		}
	}
	switch {
	case x.Domain != "kvm":
		gaps["sev"] = "AMD SEV needs KVM, and this host has no KVM."
	case sev == nil:
		gaps["sev"] = "libvirt finds no AMD SEV: the processor has none, or it is off in the firmware (SMEE, SEV) or in the kernel (kvm_amd.sev=1)."
	}
	if gaps["sev-es"] = gaps["sev"]; sev != nil && sev.MaxESGuests == 0 && gaps["sev"] == "" {
		gaps["sev-es"] = "The host's firmware reserves no ASIDs for SEV-ES: raise \"SEV-ES ASID space limit\" in the firmware setup, and set kvm_amd.sev_es=1."
	}
	newer := func(way, since string, from uint64, why string) {
		switch {
		case version < from:
			gaps[way] = "This memory encryption needs libvirt " + since + ". This host has " + formatVersion(version) + "."
		case !slices.Contains(ways, way):
			gaps[way] = why
		}
	}
	newer("sev-snp", "10.5", 10_005_000, "libvirt finds no AMD SEV-SNP: the processor has none, or it is off in the firmware or in the kernel (kvm_amd.sev_snp=1).")
	newer("tdx", "11.6", 11_006_000, "libvirt finds no Intel TDX: the processor has none, or it is off in the firmware or in the kernel (kvm_intel.tdx=1).")
	return gaps
}

func formatVersion(v uint64) string { return fmt.Sprintf("%d.%d", v/1_000_000, v/1000%1000) }

// readLaunchInfo returns the processor's launch measurement of the guest. It returns nil if there is none or libvirt cannot
// read it now.
func (b *Backend) readLaunchInfo(ctx context.Context, c *conn.Conn, ref golibvirt.Domain, live *libvirtxml.Domain) *fleet.LaunchInfo {
	kind, _ := domxml.EncryptionKindOf(live)
	if kind == "" {
		return nil
	}
	answer, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) ([]golibvirt.TypedParam, error) {
		return l.DomainGetLaunchSecurityInfo(ref, 0)
	})
	if err != nil {
		b.log.Warn("the launch measurement of a guest cannot be read", "vm", ref.Name, "error", err)
		return nil
	}
	return parseLaunchInfo(kind, answer)
}

// parseLaunchInfo decodes libvirt's answer and ignores unknown fields.
func parseLaunchInfo(kind string, answer []golibvirt.TypedParam) *fleet.LaunchInfo {
	out := &fleet.LaunchInfo{Kind: kind}
	for _, p := range answer {
		n, _ := strconv.ParseUint(fmt.Sprint(p.Value.I), 10, 64) // 0 if the value is not a number
		small := int(min(n, 1<<31-1))
		switch p.Field {
		case golibvirt.DomainLaunchSecuritySevMeasurement:
			if text, ok := p.Value.I.(string); ok && len(text) <= fleet.MaxMeasurement {
				out.Measurement = text
			}
		case golibvirt.DomainLaunchSecuritySevPolicy, golibvirt.DomainLaunchSecuritySevSnpPolicy:
			out.Policy = int64(min(n, 1<<63-1))
		case golibvirt.DomainLaunchSecuritySevAPIMajor:
			out.APIMajor = small
		case golibvirt.DomainLaunchSecuritySevAPIMinor:
			out.APIMinor = small
		case golibvirt.DomainLaunchSecuritySevBuildID:
			out.BuildID = small
		}
	}
	return out
}
