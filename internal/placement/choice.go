package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Choice is the result of Place. Host is nil if no host fits.
type Choice struct {
	Host    *Host
	Refused []Refusal // sorted by host name
}

// Refusal is the first reason why a host was refused.
type Refusal struct {
	HostID   fleet.HostID
	HostName string
	Fault
}

// Place chooses among the fitting hosts. It prefers the fewest broken preferences (rules, PreferNoSchedule taints, and
// the role controlPlane), then a host that needs no image copied first, then the most free memory, then the first name.
// Of the hosts of a cluster with PlacementPack it considers only the one that is best by the least free memory instead.
func Place(spec fleet.VMSpec, hosts []Host) Choice {
	var c Choice
	check := newSpecCheck(spec)
	packed := map[fleet.ClusterID]*Host{} // the best host of each cluster with PlacementPack
	for i := range hosts {
		h := &hosts[i]
		if fault := check.firstFault(*h); fault != nil {
			c.Refused = append(c.Refused, Refusal{h.ID, h.Name, *fault})
			continue
		}
		if h.Cluster.Spec.Placement != fleet.PlacementPack {
			c.Host = betterHost(spec, c.Host, h, 1)
			continue
		}
		packed[h.Cluster.ID] = betterHost(spec, packed[h.Cluster.ID], h, -1)
	}
	for _, h := range packed {
		c.Host = betterHost(spec, c.Host, h, 1)
	}
	slices.SortFunc(c.Refused, func(a, b Refusal) int { return strings.Compare(a.HostName, b.HostName) })
	return c
}

// betterHost returns the host that Place prefers. best is nil at first. memory is 1 to prefer much free memory, -1 to
// prefer little.
func betterHost(spec fleet.VMSpec, best, h *Host, memory int) *Host {
	if best == nil || cmp.Or(
		best.brokenPreferences(spec)-h.brokenPreferences(spec), best.imageCopyPenalty()-h.imageCopyPenalty(),
		memory*cmp.Compare(h.freeMemoryMiB(), best.freeMemoryMiB()), strings.Compare(best.Name, h.Name),
	) > 0 {
		return h
	}
	return best
}

// imageCopyPenalty is 1 if an image must be copied to the host first.
func (h Host) imageCopyPenalty() int {
	for _, image := range h.Images {
		if image.NeedsCopy {
			return 1
		}
	}
	return 0
}

// RefusalText is a sentence with at most limit refused hosts and their reasons.
func (c Choice) RefusalText(limit int) string {
	if len(c.Refused) == 0 {
		return "There is no host yet. Add one first."
	}
	parts := make([]string, len(c.Refused))
	for i, r := range c.Refused {
		parts[i] = r.HostName + ": " + strings.TrimSuffix(r.Message, ".")
	}
	return joinHostReasons(parts, limit)
}

// RefusalTextWithoutHosts is RefusalText for users who may not see hosts: the number of hosts by reason, the most
// frequent reason first.
func (c Choice) RefusalTextWithoutHosts(limit int) string {
	if len(c.Refused) == 0 {
		return "There is no host yet. Ask an administrator to add one."
	}
	lack := map[string]int{}
	for _, r := range c.Refused {
		lack[r.Plain]++
	}
	most := slices.SortedFunc(maps.Keys(lack), func(a, b string) int { return cmp.Or(lack[b]-lack[a], strings.Compare(a, b)) })
	parts := make([]string, len(most))
	for i, plain := range most {
		if parts[i] = "1 host: " + plain; lack[plain] > 1 {
			parts[i] = fmt.Sprintf("%d hosts: %s", lack[plain], plain)
		}
	}
	return joinHostReasons(parts, limit)
}

func joinHostReasons(parts []string, limit int) string {
	if more := len(parts) - limit; more > 0 {
		parts = append(parts[:limit:limit], fmt.Sprintf("and %d more", more))
	}
	return "No host can take this VM. " + strings.Join(parts, "; ") + "."
}
