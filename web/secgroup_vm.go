package web

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	groupview "quantix/views/secgroup"
	"quantix/views/shell"
)

// nicFiltersForm is the form with a NIC's security groups and anti-spoofing.
type nicFiltersForm struct {
	MAC          string                  `form:"mac"`
	Generation   int64                   `form:"generation"`
	Groups       []fleet.SecurityGroupID `form:"group"`
	AntiSpoofing string                  `form:"guard"`
}

func (s *Server) showNICFiltersForm(c echo.Context, a fleet.Actor, in nicFiltersForm, how formDisplay) error {
	ctx := c.Request().Context()
	vm, err := s.Control.GetVM(ctx, a, fleet.VMID(c.Param("id")))
	if err != nil {
		return err
	}
	if !how.wasRefused() {
		in.MAC = c.QueryParam("mac")
	}
	nic := nicByMAC(vm, in.MAC)
	if nic == nil {
		return fleet.Errorf(fleet.NotFound, "The VM %s has no such NIC.", vm.Name)
	}
	if !how.wasRefused() {
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
	return s.showPageWithStatus(c, how.status, a, vmPageLayout(vm), groupview.NICFiltersDialog(groupview.NICForm{
		PortGroup: follow, VM: vm, MAC: nic.MAC, AntiSpoofing: in.AntiSpoofing != "", MayTurnOff: policy.May(a, policy.InfraChange, ""), Groups: groupview.NICChoices(all, in.Groups), Errors: how.errors,
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

func (s *Server) setNICFilters(c echo.Context, a fleet.Actor, in nicFiltersForm) (formResponse, error) {
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
	return stayOnPage(views.VMPath(vm.ID), "The filter of the NIC "+in.MAC+" is queued on the host."), err
}

// trafficTestPage shows the traffic test: its form and, once submitted, the result. The form is sent by GET, so that
// users can share the address of a result.
func (s *Server) trafficTestPage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	p := groupview.PacketTestPage{
		Actor: a,
		From:  strings.TrimSpace(c.QueryParam("from")), FromNIC: strings.TrimSpace(c.QueryParam("fromCard")),
		To: strings.TrimSpace(c.QueryParam("to")), ToNIC: strings.TrimSpace(c.QueryParam("toCard")),
		Protocol: c.QueryParam("protocol"), Port: strings.TrimSpace(c.QueryParam("port")),
	}
	vms, err := s.Control.ListVMs(ctx, a, fleet.Query{Limit: 100})
	if err != nil {
		return err
	}
	for _, vm := range vms.Items {
		p.VMs = append(p.VMs, vm.Name)
	}
	status := http.StatusOK
	if p.From != "" || p.To != "" {
		var refused *fleet.Error
		answer, err := s.runTrafficTest(c, a, p)
		switch {
		case err == nil:
			p.Answer = &answer
		case errors.As(err, &refused) && refused.Code == fleet.Invalid:
			p.Errors, status, _ = formErrorsFrom(err)
		default:
			return err
		}
	}
	return s.showPageWithStatus(c, status, a, shell.PageLayout{Title: "Traffic test"}, groupview.PacketTest(p))
}

func (s *Server) runTrafficTest(c echo.Context, a fleet.Actor, p groupview.PacketTestPage) (fleet.PassAnswer, error) {
	q := fleet.PassQuestion{Protocol: fleet.Protocol(p.Protocol)}
	var checks fleet.Checks
	if p.Port != "" && (q.Protocol == fleet.TCP || q.Protocol == fleet.UDP) {
		port, err := strconv.Atoi(p.Port)
		if err != nil {
			checks.Add("port", "Give the port as a number.")
		}
		q.Port = port
	}
	var err error
	if q.From, err = s.resolveTrafficEndpoint(c, a, p.From, p.FromNIC, "from", &checks); err == nil {
		q.To, err = s.resolveTrafficEndpoint(c, a, p.To, p.ToNIC, "to", &checks)
	}
	if err == nil {
		err = checks.Err()
	}
	if err != nil {
		return fleet.PassAnswer{}, err
	}
	return s.Control.CheckConnection(c.Request().Context(), a, q)
}

// resolveTrafficEndpoint resolves an endpoint of the traffic test from the typed text: an address, or a VM by name or
// id. nic selects the VM's NIC by MAC or IP address. Errors are added to checks, at fields below at.
func (s *Server) resolveTrafficEndpoint(c echo.Context, a fleet.Actor, text, nic, at string, checks *fleet.Checks) (e fleet.PassEnd, err error) {
	if _, err := netip.ParseAddr(text); err == nil || text == "" {
		return fleet.PassEnd{Address: text}, nil
	}
	if _, err := netip.ParseAddr(nic); err == nil {
		e.Address = nic
	} else {
		e.MAC = nic
	}
	if fleet.IsID(text) {
		e.VMID = fleet.VMID(text)
		return e, nil
	}
	found, err := s.Control.ListVMs(c.Request().Context(), a, fleet.Query{Filter: "name:" + strconv.Quote(text), Limit: 3})
	if fleet.CodeOf(err) == fleet.Invalid {
		checks.Add(at+".vmId", "There is no such VM.")
		return e, nil
	}
	if err != nil {
		return e, err
	}
	for _, vm := range found.Items {
		switch {
		case vm.Name != text:
		case e.VMID != "":
			checks.Add(at+".vmId", "Several VMs have this name. Give the UUID of one of them.")
		default:
			e.VMID = vm.ID
		}
	}
	if e.VMID == "" {
		checks.Add(at+".vmId", "There is no such VM. Give the name of a VM, or an address.")
	}
	return e, nil
}
