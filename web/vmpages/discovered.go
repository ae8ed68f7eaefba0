package vmpages

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	consoleview "quantix/views/console"
	"quantix/views/shell"
	vmview "quantix/views/vm"
	"quantix/views/vmlist"
	"quantix/web/form"
)

// readDiscoveredVMPage reads the unmanaged VM in the path, and the layout of its pages.
func (s *Site) readDiscoveredVMPage(c echo.Context, a fleet.Actor, tab string) (vmlist.DiscoveredPage, shell.PageLayout, error) {
	vm, err := s.Control.GetDiscoveredVM(c.Request().Context(), a, fleet.HostID(c.Param("host")), fleet.VMID(c.Param("id")))
	layout := shell.PageLayout{Title: vm.Name, ObjectKeys: []string{"host:" + string(vm.HostID), "found:" + string(vm.ID)}}
	return vmlist.DiscoveredPage{VM: vm, Tab: tab, Actions: policy.RestrictActions(a, "found", "", vm.Actions()), Now: time.Now()}, layout, err
}

func (s *Site) DiscoveredVMPage(c echo.Context, a fleet.Actor) error {
	p, layout, err := s.readDiscoveredVMPage(c, a, "summary")
	if fleet.CodeOf(err) == fleet.NotFound {
		if path := s.adoptedVMPath(c, a); path != "" {
			return c.Redirect(http.StatusSeeOther, path)
		}
	}
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, layout, vmlist.DiscoveredVMPage(p))
}

func (s *Site) DiscoveredConsolePage(c echo.Context, a fleet.Actor) error {
	p, layout, err := s.readDiscoveredVMPage(c, a, "console")
	if err != nil {
		return err
	}
	p.People = consoleview.People{Actor: a, Own: fleet.PairID(c.QueryParam("session")), Keys: "console-sessions", Href: views.DiscoveredVMPath(p.VM.HostID, p.VM.ID, "console")}
	if p.People.Sessions, err = s.Control.OpenDiscoveredConsoleSessions(c.Request().Context(), a, p.VM.HostID, p.VM.ID); err != nil {
		return err
	}
	layout.Scripts = []string{"bundle/console.js"}
	if c.QueryParam("window") == "" {
		return s.ShowPage(c, a, layout, vmlist.DiscoveredVMPage(p))
	}
	layout.Title, layout.Actor, layout.Now = "Console of "+p.VM.Name, a, p.Now
	return s.WritePage(c, http.StatusOK, shell.FullWindowPage(layout, vmview.ScreenWindow(p.Screen(true))))
}

type discoveredActionForm struct {
	Action fleet.Action `form:"action"`
}

// StartDiscoveredVMAction requests a power action on an unmanaged VM.
func (s *Site) StartDiscoveredVMAction(c echo.Context, a fleet.Actor, in discoveredActionForm) (form.Response, error) {
	host, id := fleet.HostID(c.Param("host")), fleet.VMID(c.Param("id"))
	task, err := s.Control.RequestDiscoveredVMAction(c.Request().Context(), a, host, id, in.Action)
	return form.StayOnPage(views.DiscoveredVMPath(host, id), in.Action.Label()+" "+task.SubjectName+": queued on "+task.HostName+"."), err
}
