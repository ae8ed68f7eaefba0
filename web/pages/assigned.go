package pages

import (
	"context"
	"slices"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	networkview "quantix/views/network"
	poolview "quantix/views/pool"
	"quantix/views/shell"
	"quantix/web/form"
)

// HostAssignmentPages describes the pages about the assignment of objects to hosts. T is the type of the objects, pools or
// networks, and C their status on a host. Both resource types share the handlers and differ in these fields.
type HostAssignmentPages[ID ~string, T, C any] struct {
	site              *Site
	typ               fleet.ResourceType
	load              objectGetter[ID, T] // the object with its first hosts
	loadBrief         objectGetter[ID, T]
	status            func(ctx context.Context, a fleet.Actor, id ID, host fleet.HostID) (C, error)
	isAssigned        func(T, fleet.HostID) bool
	unmetRequirements func(T, fleet.Host) []kit.MissingCapability // unmet requirements of a host
	frame             func(T) shell.PageLayout

	assign        func(fleet.Actor, T, []kit.HostChoice, kit.Errors) templ.Component
	release       func(fleet.Actor, T, C, kit.Errors) templ.Component
	confirmDelete func(fleet.Actor, T, kit.Errors) templ.Component
	labels        func(fleet.Actor, T, kit.HostLabelForm) templ.Component
	labelsTab     string // the tab of the object's page that shows the label selector
}

// PoolAssignmentPages returns the pages of pools that concern the assignment to hosts.
func (s *Site) PoolAssignmentPages() HostAssignmentPages[fleet.PoolID, fleet.PoolView, fleet.PoolHost] {
	return HostAssignmentPages[fleet.PoolID, fleet.PoolView, fleet.PoolHost]{
		site: s, typ: fleet.TypePool, load: s.Control.GetPool, loadBrief: s.Control.GetPool, status: s.Control.PoolHost, frame: poolPageLayout,
		isAssigned: func(v fleet.PoolView, h fleet.HostID) bool {
			return slices.ContainsFunc(v.Hosts, func(p fleet.PoolHost) bool { return p.HostID == h && p.Assigned })
		},
		unmetRequirements: func(v fleet.PoolView, h fleet.Host) []kit.MissingCapability {
			return poolview.MissingCapabilities(h, v.Spec.Kind)
		},
		assign: poolview.AssignDialog, release: poolview.ReleaseDialog, confirmDelete: poolview.DeleteDialog, labels: poolview.HostLabelsDialog, labelsTab: "configure",
	}
}

// NetworkAssignmentPages returns the pages of networks that concern the assignment to hosts.
func (s *Site) NetworkAssignmentPages() HostAssignmentPages[fleet.NetworkID, fleet.NetworkView, fleet.NetworkHost] {
	return HostAssignmentPages[fleet.NetworkID, fleet.NetworkView, fleet.NetworkHost]{
		site: s, typ: fleet.TypeNetwork, load: s.Control.GetNetwork, loadBrief: s.Control.NetworkBrief, status: s.Control.NetworkHost, frame: networkPageLayout,
		isAssigned: func(n fleet.NetworkView, h fleet.HostID) bool {
			return slices.ContainsFunc(n.Hosts, func(x fleet.NetworkHost) bool { return x.HostID == h && x.Assigned })
		},
		unmetRequirements: func(n fleet.NetworkView, h fleet.Host) []kit.MissingCapability {
			if n.Spec == nil {
				return nil
			}
			return networkview.MissingCapabilities(h, n.Spec.Mode)
		},
		assign: networkview.AssignDialog, release: networkview.ReleaseDialog, confirmDelete: networkview.DeleteDialog, labels: networkview.HostLabelsDialog, labelsTab: "summary",
	}
}

// subject returns the object in the request's path.
func (e HostAssignmentPages[ID, T, C]) subject(c echo.Context) fleet.Subject {
	return fleet.SubjectOf(e.typ, c.Param("id"))
}

func (e HostAssignmentPages[ID, T, C]) pagePath(c echo.Context) string {
	return e.typ.Info().PagePath(c.Param("id"))
}

type assignForm struct {
	Hosts []fleet.HostID `form:"host"`
}

func (e HostAssignmentPages[ID, T, C]) ShowAssignHostsForm(c echo.Context, a fleet.Actor, in assignForm, how form.Display) error {
	ctx := c.Request().Context()
	object, err := e.load(ctx, a, ID(c.Param("id")))
	if err != nil {
		return err
	}
	var lacks func(fleet.Host) []kit.MissingCapability
	if e.unmetRequirements != nil {
		lacks = func(h fleet.Host) []kit.MissingCapability { return e.unmetRequirements(object, h) }
	}
	hosts, err := e.site.assignableHosts(ctx, a, in.Hosts, func(h fleet.HostID) bool { return e.isAssigned(object, h) }, lacks)
	if err != nil {
		return err
	}
	return e.site.ShowPageWithStatus(c, how.Status, a, e.frame(object), e.assign(a, object, hosts, how.Errors))
}

func (e HostAssignmentPages[ID, T, C]) AssignToHosts(c echo.Context, a fleet.Actor, in assignForm) (form.Response, error) {
	tasks, err := e.site.Control.Assign(c.Request().Context(), a, e.subject(c), in.Hosts)
	return form.StayOnPage(e.pagePath(c), kit.CountText(len(tasks), "host")+" will get the "+e.typ.Info().Label+"."), err
}

func (e HostAssignmentPages[ID, T, C]) ConfirmReleaseFromHost(c echo.Context, a fleet.Actor, _ form.EmptyForm, how form.Display) error {
	ctx, id := c.Request().Context(), ID(c.Param("id"))
	object, err := e.loadBrief(ctx, a, id)
	if err != nil {
		return err
	}
	status, err := e.status(ctx, a, id, fleet.HostID(c.Param("host")))
	if err != nil {
		return err
	}
	return e.site.ShowPageWithStatus(c, how.Status, a, e.frame(object), e.release(a, object, status, how.Errors))
}

func (e HostAssignmentPages[ID, T, C]) ReleaseFromHost(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	_, err := e.site.Control.Release(c.Request().Context(), a, e.subject(c), fleet.HostID(c.Param("host")))
	return form.StayOnPage(e.pagePath(c), "The host will release the "+e.typ.Info().Label+"."), err
}

func (e HostAssignmentPages[ID, T, C]) RetryOnHost(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	_, err := e.site.Control.Retry(c.Request().Context(), a, e.subject(c), fleet.HostID(c.Param("host")))
	return form.StayOnPage(e.pagePath(c), "The host will try again."), err
}

// hostDriftForm names one field with drift, with the host's value that the page showed.
type hostDriftForm struct {
	Field  string `form:"field"`
	Actual string `form:"actual"`
}

func (in hostDriftForm) seen() map[string]string { return map[string]string{in.Field: in.Actual} }

func (e HostAssignmentPages[ID, T, C]) ReapplyOnHost(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	_, err := e.site.Control.ReapplyOnHost(c.Request().Context(), a, e.subject(c), fleet.HostID(c.Param("host")))
	return form.StayOnPage(e.pagePath(c), "The host will define the "+e.typ.Info().Label+" again."), err
}

func (e HostAssignmentPages[ID, T, C]) AcceptDriftOnHost(c echo.Context, a fleet.Actor, in hostDriftForm) (form.Response, error) {
	tasks, err := e.site.Control.AcceptDriftOnHost(c.Request().Context(), a, e.subject(c), fleet.HostID(c.Param("host")), in.seen())
	return form.StayOnPage(e.pagePath(c), "The drift is accepted: "+kit.CountText(len(tasks), "host")+" will get the value."), err
}

func (e HostAssignmentPages[ID, T, C]) IgnoreDriftOnHost(c echo.Context, a fleet.Actor, in hostDriftForm) (form.Response, error) {
	err := e.site.Control.IgnoreDriftOnHost(c.Request().Context(), a, e.subject(c), fleet.HostID(c.Param("host")), in.seen())
	return form.StayOnPage(e.pagePath(c), "The drift is ignored until the host's value changes."), err
}

func (e HostAssignmentPages[ID, T, C]) ShowDriftOnHost(c echo.Context, a fleet.Actor, in hostDriftForm) (form.Response, error) {
	err := e.site.Control.ShowDriftOnHost(c.Request().Context(), a, e.subject(c), fleet.HostID(c.Param("host")), []string{in.Field})
	return form.StayOnPage(e.pagePath(c), "The drift is shown again."), err
}

func (e HostAssignmentPages[ID, T, C]) RetryOnAllFailedHosts(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	r, err := e.site.Control.RetryEverywhere(c.Request().Context(), a, e.subject(c))
	return form.StayOnPage(e.pagePath(c), kit.RetryResultText(r)), err
}

func (e HostAssignmentPages[ID, T, C]) ConfirmDeleteObject(c echo.Context, a fleet.Actor, in form.EmptyForm, how form.Display) error {
	dialog := func(object T, errs kit.Errors) templ.Component { return e.confirmDelete(a, object, errs) }
	return form.ConfirmDialog(e.site.Renderer, e.loadBrief, e.frame, dialog)(c, a, in, how)
}

// DeleteObject deletes the object and redirects to the list, which shows the object until the hosts have finished the
// deletion.
func (e HostAssignmentPages[ID, T, C]) DeleteObject(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	_, err := e.site.Control.DeleteEverywhere(c.Request().Context(), a, e.subject(c))
	return form.RedirectTo(e.typ.Info().Path), err
}

type labelSelectorForm struct {
	Selector string `form:"selector"`
}

// ShowLabelSelectorForm shows the form for the label selector, with the matching hosts. Without JavaScript, the form
// reloads its own address to update the matching hosts.
func (e HostAssignmentPages[ID, T, C]) ShowLabelSelectorForm(c echo.Context, a fleet.Actor, in labelSelectorForm, how form.Display) error {
	ctx := c.Request().Context()
	object, err := e.loadBrief(ctx, a, ID(c.Param("id")))
	if err != nil {
		return err
	}
	f := kit.HostLabelForm{Selector: in.Selector, Error: how.Errors.At("selector"), Errors: how.Errors}
	if !how.WasRefused() {
		f.Selector = c.QueryParam("selector")
		if !c.QueryParams().Has("selector") {
			now, err := e.site.Control.ByLabel(ctx, a, e.subject(c))
			if err != nil {
				return err
			}
			f.Selector = now.Selector
		}
	}
	if f.Error == "" {
		if f.Preview, err = e.site.previewLabelSelector(ctx, a, e.subject(c), f.Selector); err != nil {
			return err
		}
	}
	return e.site.ShowPageWithStatus(c, how.Status, a, e.frame(object), e.labels(a, object, f))
}

func (e HostAssignmentPages[ID, T, C]) SubmitLabelSelectorForm(c echo.Context, a fleet.Actor, in labelSelectorForm) (form.Response, error) {
	now, err := e.site.Control.AssignByLabel(c.Request().Context(), a, e.subject(c), in.Selector)
	text := "Hosts with the labels " + now.Selector + " get the " + e.typ.Info().Label + " automatically."
	if now.Selector == "" {
		text = "Assignment by label is off. Hosts that have the " + e.typ.Info().Label + " keep it."
	}
	return form.StayOnPage(views.TabPath(e.pagePath(c), e.labelsTab), text), err
}

// newLabelSelectorForm returns the label selector part of the form of a new object.
func (s *Site) newLabelSelectorForm(ctx context.Context, a fleet.Actor, typ fleet.ResourceType, text string, how form.Display) (f kit.HostLabelForm, err error) {
	f = kit.HostLabelForm{Of: string(typ), Selector: text, Error: how.Errors.At("selector")}
	if f.Error == "" && text != "" {
		f.Preview, err = s.previewLabelSelector(ctx, a, fleet.SubjectOf(typ, ""), text)
	}
	return f, err
}

// previewLabelSelector returns the hosts that match the selector text. For an invalid selector it returns no error; the
// preview then contains the reason.
func (s *Site) previewLabelSelector(ctx context.Context, a fleet.Actor, of fleet.Subject, text string) (kit.HostLabelPreview, error) {
	found, err := s.Control.PreviewHostsByLabel(ctx, a, of, text)
	if e, _, ok := form.ErrorsFrom(err); ok && e.At("selector") != "" {
		return kit.HostLabelPreview{Error: e.At("selector")}, nil
	}
	return kit.HostLabelPreview{MatchingHosts: found, HasLabels: strings.TrimSpace(text) != ""}, err
}

// ShowLabelledHosts shows the matching hosts below the selector while the user types.
func (s *Site) ShowLabelledHosts(c echo.Context, a fleet.Actor) error {
	p, err := s.previewLabelSelector(c.Request().Context(), a, fleet.Subject(c.QueryParam("of")), c.QueryParam("selector"))
	if err != nil {
		return err
	}
	return s.WriteFragment(c, a, "Hosts with the labels", kit.LabelledHosts(p))
}
