// Package adoption has the rules by which objects that a host had before Quantix become objects of Quantix: domains, pools
// and libvirt networks. It has no state.
package adoption

import (
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Limits of the list of a VM's verbatim parts.
const (
	maxVerbatim     = 200
	maxVerbatimText = 200 // characters
)

// BoundVerbatim returns the list without duplicates and within the limits. A cut list ends with a note.
func BoundVerbatim(all []string) []string {
	out := []string{}
	for _, text := range all {
		text = strings.Join(strings.Fields(strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")), " ")
		if r := []rune(text); len(r) > maxVerbatimText {
			text = string(r[:maxVerbatimText]) + "…"
		}
		if text == "" || slices.Contains(out, text) {
			continue
		}
		if len(out) == maxVerbatim {
			return append(out, "More parts, which are not listed.")
		}
		out = append(out, text)
	}
	return out
}

// maxName is the maximum length of a VM's name.
const maxName = 63

// Name returns the name that a VM gets if nobody chooses one: the domain's name with other characters replaced. It is
// empty if nothing is left.
func Name(domain string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, domain)
	name = strings.Trim(name, ".-")
	return strings.TrimRight(name[:min(len(name), maxName)], ".-")
}

// Description returns the description of an adopted VM, within the limits of descriptions. kept reports whether out is the
// whole text.
func Description(text string) (out string, kept bool) {
	out = strings.ToValidUTF8(text, "")
	if len(out) > fleet.MaxDescription {
		out = strings.ToValidUTF8(out[:fleet.MaxDescription], "")
	}
	var checks fleet.Checks
	if fleet.CheckDescription(&checks, "description", out); checks.Len() > 0 {
		return "", false
	}
	return out, out == text
}

// WithoutForeignReferences returns the spec of an adoptable VM without everything that names objects of the portal, which
// only people choose: a host reports disks, media and NICs only.
func WithoutForeignReferences(s fleet.VMSpec) fleet.VMSpec {
	s.Rules, s.Health, s.HostDevices, s.FirstBoot = nil, nil, nil, fleet.VMFirstBoot{}
	s.Policy, s.Placement, s.Migration = fleet.VMPolicy{}, fleet.VMPlacement{}, fleet.VMMigration{}
	disks, nics := slices.Clone(s.Disks), slices.Clone(s.NICs)
	for i := range disks {
		d := &disks[i]
		d.Image, d.ImageID, d.VersionID, d.ImageSHA256, d.Overlay, d.Existing, d.Encryption = nil, "", "", "", false, false, ""
	}
	for i := range nics {
		n := &nics[i]
		n.NetworkID, n.SecurityGroups, n.AntiSpoofing, n.DefaultGroups, n.DefaultAntiSpoofing = "", nil, nil, false, false
	}
	s.Disks, s.NICs = append([]fleet.Disk{}, disks...), append([]fleet.NIC{}, nics...)
	return s
}

// VMPlan is what an adoption would take over, as far as the portal knows before the host reads the definition.
type VMPlan struct {
	VM        fleet.DiscoveredVM `json:"vm"`
	ProjectID fleet.ProjectID    `json:"projectId"`
	Name      string             `json:"name"` // name of the new VM
	Disks     []PlannedDisk      `json:"disks"`
	NICs      []PlannedNIC       `json:"nics"`
	Refusals  []string           `json:"refusals"` // reasons against the adoption, each a sentence; empty: none known
}

// PlannedDisk is a disk of a VMPlan.
type PlannedDisk struct {
	fleet.DiskState
	PoolID   fleet.PoolID `json:"poolId,omitempty"` // the file pool that has the disk; empty: none, or the host finds it
	PoolName string       `json:"poolName,omitempty"`
}

// PlannedNIC is a NIC of a VMPlan.
type PlannedNIC struct {
	fleet.NICState
	NetworkID fleet.NetworkID `json:"networkId,omitempty"` // the network of the source; empty: the NIC is kept, but is not part of the spec
}

// ParseNICSource returns the network's kind and name of fleet.NICState.Source; ok is false for a NIC on neither a libvirt
// network nor a bridge.
func ParseNICSource(source string) (kind fleet.NetworkKind, name string, ok bool) {
	word, name, ok := strings.Cut(source, " ")
	name, _, _ = strings.Cut(name, ", port group ")
	kind, known := map[string]fleet.NetworkKind{"network": fleet.NetworkLibvirt, "bridge": fleet.NetworkBridge}[word]
	return kind, name, ok && known && name != ""
}
