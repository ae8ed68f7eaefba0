package vmpages

import (
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	groupview "quantix/views/secgroup"
	"quantix/web/form"
)

// nicFiltersForm is the form with a NIC's security groups and anti-spoofing.
type nicFiltersForm struct {
	MAC          string                  `form:"mac"`
	Generation   int64                   `form:"generation"`
	Groups       []fleet.SecurityGroupID `form:"group"`
	AntiSpoofing string                  `form:"guard"`
}

func (s *Site) ShowNICFiltersForm(c echo.Context, a fleet.Actor, in nicFiltersForm, how form.Display) error {
	ctx := c.Request().Context()
	vm, err := s.Control.GetVM(ctx, a, fleet.VMID(c.Param("id")))
	if err != nil {
		return err
	}
	if !how.WasRefused() {
		in.MAC = c.QueryParam("mac")
	}
	nic := nicByMAC(vm, in.MAC)
	if nic == nil {
		return fleet.Errorf(fleet.NotFound, "The VM %s has no such NIC.", vm.Name)
	}
	if !how.WasRefused() {
		in.Groups, in.AntiSpoofing = nic.SecurityGroups, ""
		if nic.HasAntiSpoofing() {
			in.AntiSpoofing = "yes"
		}
	}
	all, err := s.Control.SecurityGroupsForProject(ctx, a, vm.ProjectID)
	if err != nil {
		return err
	}
	follow := ""
	if nic.DefaultGroups {
		follow = nic.PortGroup
	}
	return s.ShowPageWithStatus(c, how.Status, a, vmPageLayout(vm), groupview.NICFiltersDialog(groupview.NICFilterForm{
		PortGroup: follow, VM: vm, MAC: nic.MAC, AntiSpoofing: in.AntiSpoofing != "", MayTurnOff: policy.May(a, policy.InfraChange, ""), Groups: groupview.SecurityGroupChoices(all, in.Groups), Errors: how.Errors,
	}))
}

func nicByMAC(vm fleet.VMView, mac string) *fleet.NIC {
	for i, n := range vm.Spec.NICs {
		if strings.EqualFold(n.MAC, mac) {
			return &vm.Spec.NICs[i]
		}
	}
	return nil
}

func (s *Site) SetNICFilters(c echo.Context, a fleet.Actor, in nicFiltersForm) (form.Response, error) {
	ctx := c.Request().Context()
	vm, err := s.Control.GetVM(ctx, a, fleet.VMID(c.Param("id")))
	if err != nil {
		return nil, err
	}
	nic := nicByMAC(vm, in.MAC)
	if nic == nil {
		return nil, fleet.Errorf(fleet.NotFound, "The VM %s has no such NIC.", vm.Name)
	}
	guard := in.AntiSpoofing != ""
	nic.SecurityGroups, nic.AntiSpoofing = in.Groups, &guard
	_, _, err = s.Control.UpdateVM(ctx, a, vm.ID, control.UpdateVM{Spec: &vm.Spec, IfGeneration: in.Generation})
	return form.StayOnPage(views.VMPath(vm.ID), "The filter of the NIC "+in.MAC+" is queued on the host."), err
}
