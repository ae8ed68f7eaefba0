package release

import (
	"cmp"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Offer is a release that the portal offers to hosts.
type Offer struct {
	Version string `json:"version"`
	Platform
	SizeBytes int64  `json:"sizeBytes"`
	SHA256    string `json:"sha256,omitempty"`
	KeyID     string `json:"keyId,omitempty" doc:"ID of the key that signed the release. Hosts verify the signature, not the portal"`
	// Problem is why no host can take the release, as a sentence; empty: hosts can.
	Problem string `json:"problem,omitempty" doc:"Why no host can take the release"`
}

// SortOffers sorts offers by version, the newest first, and by platform.
func SortOffers(all []Offer) {
	slices.SortFunc(all, func(a, b Offer) int {
		order, ok := Compare(b.Version, a.Version)
		if !ok {
			order = strings.Compare(b.Version, a.Version)
		}
		return cmp.Or(order, strings.Compare(a.Platform.String(), b.Platform.String()))
	})
}

// Versions returns the versions that have at least one offer without a problem, in the order of the offers.
func Versions(all []Offer) (out []string) {
	for _, o := range all {
		if o.Problem == "" && !slices.Contains(out, o.Version) {
			out = append(out, o.Version)
		}
	}
	return out
}

// HostRefusal returns why the host cannot take the version now, as a sentence; empty: it can.
func HostRefusal(h fleet.HostView, all []Offer, version string, allowDowngrade bool) string {
	if ok, why := h.Allows(fleet.ActUpgradeAgent); !ok {
		return why
	}
	i := slices.IndexFunc(all, func(o Offer) bool { return o.Version == version && o.Platform.String() == h.Status.Platform })
	switch {
	case i < 0:
		return "There is no release of version " + version + " for " + h.Status.Platform + "."
	case all[i].Problem != "":
		return all[i].Problem
	case !slices.Contains(h.AgentSettings().UpgradeKeys, all[i].KeyID):
		return "The release is signed with the key " + all[i].KeyID + ", which agent.yaml of " + h.Name + " does not trust."
	}
	return VersionRefusal(h.Status.AgentVersion, version, allowDowngrade)
}
