package host

import (
	"slices"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/views"
	"quantix/views/kit"
)

// ClusterHosts is the table of hosts on the page of a cluster.
func ClusterHosts(hosts []fleet.HostView, now time.Time) kit.Table[fleet.HostView] {
	shown := slices.DeleteFunc(slices.Clone(Columns), func(c kit.Column) bool { return c.OnRequest || c.Key == "labels" || c.Key == "health" })
	return kit.Table[fleet.HostView]{
		List: &kit.List{Shown: shown}, ID: "cluster-hosts", Label: "Hosts of the cluster", Type: "host", Head: kit.NameColumn, Items: hosts, HasRowMenus: true,
		Row: hostRow, RowCells: func(shown kit.Columns, h *fleet.HostView) templ.Component {
			return row(shown, h, nil, healthevent.Summary{}, now)
		},
	}
}

// hostRow is a host's row in a table of hosts.
func hostRow(h *fleet.HostView) kit.Row {
	return kit.Row{ID: "host-" + string(h.ID), Name: h.Name, Href: views.HostPath(h.ID), Menu: views.ContextMenuPath(fleet.TypeHost, h.ID)}
}
