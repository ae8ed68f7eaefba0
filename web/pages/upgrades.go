package pages

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/upgrades"
	"quantix/internal/fleet"
	"quantix/internal/release"
	"quantix/views"
	hostview "quantix/views/host"
	"quantix/views/shell"
	"quantix/web/form"
)

// upgradeForm is the choice of the version and of the hosts. All fields but the roles are also in the page's address.
type upgradeForm struct {
	version, filter, soak string
	downgrade             bool
	roles                 map[fleet.HostID]string // hostview.RoleCanary or hostview.RoleFollow
}

// ReadForm reads the fields, and "role.<host ID>" for each host.
func (f *upgradeForm) ReadForm(sent url.Values) {
	f.version, f.filter, f.soak, f.downgrade = sent.Get("version"), sent.Get("filter"), sent.Get("soak"), sent.Get("downgrade") != ""
	f.roles = map[fleet.HostID]string{}
	for name := range sent {
		if id, ok := strings.CutPrefix(name, "role."); ok && sent.Get(name) != "" {
			f.roles[fleet.HostID(id)] = sent.Get(name)
		}
	}
	if id := sent.Get("host"); id != "" { // the menu of a host
		f.roles[fleet.HostID(id)] = hostview.RoleCanary
	}
}

// maxUpgradeHosts limits the hosts of the page.
const maxUpgradeHosts = 200

// defaultSoakMinutes is the text of release.DefaultSoak in the form.
const defaultSoakMinutes = "2"

// ShowUpgradeForm shows the releases, and which hosts can take the chosen version.
func (s *Site) ShowUpgradeForm(c echo.Context, a fleet.Actor, in upgradeForm, how form.Display) error {
	ctx := c.Request().Context()
	if !how.WasRefused() {
		in.ReadForm(c.QueryParams())
	}
	offers, err := s.Control.ListReleases(ctx, a)
	if err != nil {
		return err
	}
	p := hostview.UpgradePage{Offers: offers, AllowDowngrade: in.downgrade, Filter: in.filter, Soak: cmp.Or(in.soak, defaultSoakMinutes), Errors: how.Errors}
	versions := release.Versions(offers)
	if slices.Contains(versions, in.version) {
		p.Version = in.version
	} else if len(versions) > 0 {
		p.Version = versions[0] // the newest
	}
	if p.Version != "" {
		if err := s.fillUpgradeHosts(c, a, in, &p); err != nil {
			return err
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Upgrade agents"}, hostview.Upgrade(p))
}

func (s *Site) fillUpgradeHosts(c echo.Context, a fleet.Actor, in upgradeForm, p *hostview.UpgradePage) error {
	hosts, err := s.Control.ListHosts(c.Request().Context(), a, fleet.Query{Filter: in.filter, Limit: maxUpgradeHosts})
	if fleet.CodeOf(err) == fleet.Invalid {
		p.Errors, _, _ = form.ErrorsFrom(err)
		err = nil
	}
	p.Truncated = hosts.Next != ""
	for _, h := range hosts.Items {
		row := hostview.UpgradeHost{HostView: h, Role: in.roles[h.ID]}
		row.Why = release.HostRefusal(h, p.Offers, p.Version, p.AllowDowngrade)
		p.Hosts = append(p.Hosts, row)
	}
	return err
}

// UpgradeAgents begins the upgrade, and shows its task.
func (s *Site) UpgradeAgents(c echo.Context, a fleet.Actor, in upgradeForm) (form.Response, error) {
	order := upgrades.Order{AgentUpgrade: fleet.AgentUpgrade{Version: in.version, AllowDowngrade: in.downgrade}}
	var checks fleet.Checks
	minutes := form.ParseField(&checks, "soakSeconds", in.soak, parseSoakMinutes)
	order.SoakSeconds = int(math.Round(minutes * 60))
	for _, id := range sortedHostIDs(in.roles) {
		switch in.roles[id] {
		case hostview.RoleCanary:
			order.Canaries = append(order.Canaries, id)
		case hostview.RoleFollow:
			order.Hosts = append(order.Hosts, id)
		}
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	task, err := s.Control.UpgradeAgents(c.Request().Context(), a, order)
	return form.RedirectTo(views.TaskPath(task.ID)), err
}

func sortedHostIDs(roles map[fleet.HostID]string) []fleet.HostID {
	ids := make([]fleet.HostID, 0, len(roles))
	for id := range roles {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// parseSoakMinutes parses a positive number of minutes.
func parseSoakMinutes(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n > 0 && n <= 24*60) {
		return 0, fleet.Errorf(fleet.Invalid, "Enter minutes, up to 24 hours.")
	}
	return n, nil
}
