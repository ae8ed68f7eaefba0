package pool

import (
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// VolumeRow is a volume with the hosts that have it, and the VM whose disk it is.
type VolumeRow struct {
	fleet.Volume
	Shared    bool
	Hosts     []kit.Named
	Host      fleet.HostID // of a local pool: whose file
	VM        *kit.Named   // nil: of none
	Found     bool         // the VM is a discovered one
	Published *Published   // nil: tenants are not offered it
	Unfit     string       // why it cannot be published
}

// Published says who let tenants use a volume.
type Published struct {
	By    string
	At    time.Time
	Stale string // why it is not offered nevertheless
}

// VolumesShown is how many volumes the page shows at once.
const VolumesShown = 200

func (p Page) volumePager() kit.Pager {
	out := kit.Pager{Text: kit.Count(len(p.Volumes), "volume")}
	if p.Last-p.First < len(p.Volumes) {
		out.Text = strconv.Itoa(p.First+1) + "–" + strconv.Itoa(p.Last) + " of " + out.Text
	}
	if p.First > 0 {
		out.First = p.Link.Without("from").String()
		out.Prev = p.Link.With("from", strconv.Itoa(max(0, p.First-VolumesShown))).String()
	}
	if p.Last < len(p.Volumes) {
		out.Next = p.Link.With("from", strconv.Itoa(p.Last)).String()
	}
	return out
}

func (p Published) who() string {
	if p.By == "" {
		return "Tenants may use it."
	}
	return "Tenants may use it: published by " + p.By + " on " + p.At.UTC().Format(time.DateOnly) + "."
}

// volumeActs is what can be asked about a volume.
func (p Page) volumeActs(v VolumeRow) []kit.Act {
	at := func(act string) string {
		link := kit.Link{Path: p.path(act)}.With("volume", v.Name)
		if v.Host != "" {
			link = link.With("host", string(v.Host))
		}
		return link.String()
	}
	publish := kit.Act{Icon: "globe", Word: "Publish to tenants", Post: at("publish"), Back: p.Link.String()}.Needs(p.Actor, policy.InfraChange).When(v.Unfit)
	withdraw := kit.Act{Icon: "lock", Word: "Withdraw from tenants", Post: at("withdraw"), Back: p.Link.String()}.Needs(p.Actor, policy.InfraChange)
	switch {
	case v.Published == nil:
		withdraw = withdraw.When("It is not published.")
	case v.Published.Stale == "":
		publish = publish.When("It is published.")
	}
	if len(v.Hosts) == 0 {
		publish = publish.When("No host that is heard has it now.")
	}
	return []kit.Act{publish, withdraw}
}

// volumeHosts says where a volume can be used, in short where that is everywhere.
func (p Page) volumeHosts(v VolumeRow) string {
	switch {
	case len(v.Hosts) == 0:
		return "on no host that is heard"
	case v.Shared && len(v.Hosts) > 1 && len(v.Hosts) == p.Pool.Health.Hosts:
		return "all hosts"
	}
	var names []string
	for _, h := range v.Hosts[:min(len(v.Hosts), hostsNamed)] {
		names = append(names, h.Name)
	}
	if n := len(v.Hosts) - hostsNamed; n > 0 {
		names = append(names, "and "+kit.Count(n, "more host"))
	}
	return strings.Join(names, ", ")
}
