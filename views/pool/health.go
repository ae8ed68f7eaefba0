package pool

import (
	"strconv"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

var onHosts = kit.Columns{
	{Key: "state", Word: "State"},
	{Key: "used", Word: "Used", Class: "w-bar"},
	{Key: "free", Word: "Free", Class: "num"},
	{Key: "path", Word: "Mounted at"},
	{Key: "says", Word: "What the host says"},
	{Key: "host", Word: "Host is"},
	{Key: "heard", Word: "Heard"},
}

func (p Page) matrix() kit.Matrix[fleet.PoolHost] {
	m := kit.HostsMatrix(p.Link, "Health on each host", onHosts, p.Cells)
	m.Row = func(h fleet.PoolHost) kit.Row {
		return kit.Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: views.HostPath(h.HostID)}
	}
	m.Cells = func(head kit.Columns, h fleet.PoolHost) templ.Component { return Cells(head, p.Pool, h, p.Now) }
	m.Acts = func(h fleet.PoolHost) []kit.Act { return cellActs(p.Actor, h) }
	if m.None == nil {
		m.None = onNoHost(p)
	}
	return m
}

// failing are the first cells in which the pool cannot be used.
func failing(cells []fleet.PoolHost, most int) []fleet.PoolHost {
	var out []fleet.PoolHost
	for _, c := range cells {
		if len(out) < most && c.Assigned && (c.State == fleet.PoolFailed || c.State == fleet.PoolStalled || stoppedByOthers(c)) {
			out = append(out, c)
		}
	}
	return out
}

func retryNamed(a fleet.Actor, cell fleet.PoolHost) kit.Act {
	retry := cellActs(a, cell)[0]
	retry.Word = "Retry " + cell.HostName
	if stoppedByOthers(cell) {
		retry.Word = "Start on " + cell.HostName
	}
	return retry
}

func (p Page) countedHow() string {
	switch {
	case p.Pool.Spec.Shared:
		return "shared: counted once"
	case p.Pool.Health.Healthy == 1:
		return "of one healthy host"
	}
	return "of " + strconv.Itoa(p.Pool.Health.Healthy) + " healthy hosts together"
}

// retryable is on how many hosts the pool can be tried again together: not where somebody stopped it. Where not all hosts are told, those
// count that say that it failed.
func retryable(p Page) (n int) {
	v := p.Pool
	if !p.infra() {
		return 0
	}
	for _, h := range v.Hosts {
		if ok, _ := h.Allows(fleet.ActRetry); ok && !stoppedByOthers(h) {
			n++
		}
	}
	if len(v.Hosts) < v.Health.Hosts {
		n = max(n, v.Health.Failed)
	}
	return n
}

func retryAll(a fleet.Actor, v fleet.PoolView, n int) kit.Act {
	return kit.RetryAll(n, views.PoolPath(v.ID, "retry"), views.PoolPath(v.ID)).Needs(a, policy.InfraChange)
}
