package pages

import (
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/network"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/views"
	hostview "quantix/views/host"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/form"
)

// ShowAdoptPoolForm shows the dialog that adopts a pool of the host.
func (s *Site) ShowAdoptPoolForm(c echo.Context, a fleet.Actor, in assignForm, how form.Display) error {
	plan, err := s.Control.PoolAdoption(c.Request().Context(), a, fleet.HostID(c.Param("id")), c.Param("name"))
	if err != nil {
		return err
	}
	return s.showAdoptDialog(c, a, in, how, plan.Others, hostview.AdoptDialog{
		HostID: plan.HostID, HostName: plan.HostName, Type: fleet.TypePool.Info().Label, Tab: "storage", List: "discovered-pools", Name: plan.Pool.Name,
		Facts: hostview.PoolFacts(plan.Pool), Joins: plan.Pool.PoolID != "", Adoption: plan.Pool.Adoptability,
	})
}

// ShowAdoptNetworkForm shows the dialog that adopts a libvirt network of the host.
func (s *Site) ShowAdoptNetworkForm(c echo.Context, a fleet.Actor, in assignForm, how form.Display) error {
	plan, err := s.Control.NetworkAdoption(c.Request().Context(), a, fleet.HostID(c.Param("id")), c.Param("name"))
	if err != nil {
		return err
	}
	return s.showAdoptDialog(c, a, in, how, plan.Others, hostview.AdoptDialog{
		HostID: plan.HostID, HostName: plan.HostName, Type: fleet.TypeNetwork.Info().Label, Tab: "networks", List: "discovered-networks", Name: plan.Network.Name,
		Facts: hostview.NetworkFacts(plan.Network), Joins: plan.Network.Joins, Adoption: plan.Network.Adoptability,
	})
}

func (s *Site) showAdoptDialog(c echo.Context, a fleet.Actor, in assignForm, how form.Display, others []fleet.NamedHost, d hostview.AdoptDialog) error {
	for _, h := range others {
		d.Others = append(d.Others, kit.HostChoice{ID: h.HostID, Name: h.HostName, Chosen: slices.Contains(in.Hosts, h.HostID)})
	}
	d.Errors = how.Errors
	layout := shell.PageLayout{Title: d.HostName, ObjectKeys: []string{"host:" + string(d.HostID)}}
	return s.ShowPageWithStatus(c, how.Status, a, layout, hostview.AdoptPage(d))
}

func (s *Site) AdoptPool(c echo.Context, a fleet.Actor, in assignForm) (form.Response, error) {
	v, err := s.Control.AdoptPool(c.Request().Context(), a, fleet.HostID(c.Param("id")), c.Param("name"), storage.AdoptPool{HostIDs: in.Hosts})
	return form.RedirectTo(views.PoolPath(v.ID)), err
}

func (s *Site) AdoptNetwork(c echo.Context, a fleet.Actor, in assignForm) (form.Response, error) {
	v, err := s.Control.AdoptNetwork(c.Request().Context(), a, fleet.HostID(c.Param("id")), c.Param("name"), network.AdoptNetwork{HostIDs: in.Hosts})
	return form.RedirectTo(views.NetworkPath(v.ID)), err
}
