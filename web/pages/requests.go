package pages

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/control/requests"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
	"quantix/internal/request"
	"quantix/views"
	"quantix/views/kit"
	peopleview "quantix/views/people"
	requestview "quantix/views/request"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

// ListRequests shows the requests of the projects that the actor sees.
func (s *Site) ListRequests(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter requests", Placeholder: "state:open kind:quota who:me"}
	p := &requestview.ListPage{List: s.NewList(c, "requests", "-created", requestview.Columns, f), Actor: a, Project: fleet.ProjectID(c.QueryParam("project")), Now: time.Now()}
	if p.Requests, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListRequests); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Requests", Project: p.Project}, p.List, requestview.List(p))
}

// ExportRequestsCSV sends the list of requests as CSV.
func (s *Site) ExportRequestsCSV(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "requests.csv", render.QueryFromURL(c), s.Control.ListRequests, requestview.CSV)
}

func (s *Site) readRequestPage(c echo.Context, a fleet.Actor) (p requestview.Page, err error) {
	ctx := c.Request().Context()
	p = requestview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Now: time.Now()}
	if p.Request, err = s.Control.GetRequest(ctx, a, request.ID(c.Param("id"))); err != nil {
		return p, err
	}
	p.Usage, err = s.Control.ProjectUsage(ctx, a, p.Request.ProjectID)
	return p, err
}

// RequestPage shows one request.
func (s *Site) RequestPage(c echo.Context, a fleet.Actor) error {
	p, err := s.readRequestPage(c, a)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: p.Request.Name}, requestview.RequestPage(p))
}

// decisionForm is the form that approves or refuses a request.
type decisionForm struct {
	Generation string `form:"generation"` // of the request that the dialog showed
	Comment    string `form:"comment"`
	Pool       string `form:"poolId"`
	Network    string `form:"networkId"`
}

// seen is the request that the dialog showed. A form without a generation is refused.
func (in decisionForm) seen() requests.Seen {
	return requests.Seen{IfGeneration: cmp.Or(form.ParseGeneration(in.Generation), -1)}
}

// ShowDecision shows the dialog that approves or refuses a request.
func (s *Site) ShowDecision(c echo.Context, a fleet.Actor, in decisionForm, how form.Display) error {
	p, err := s.readRequestPage(c, a)
	if err != nil {
		return err
	}
	if err := policy.Check(a, p.Request.Kind.Info().Decide, p.Request.ProjectID); err != nil {
		return err
	}
	d := requestview.Decision{
		Page: p, Comment: in.Comment, Errors: how.Errors, RaisesOK: policy.May(a, policy.Manage, ""), BreaksOK: policy.May(a, policy.InfraChange, ""),
	}
	if kind := p.Request.Kind; kind == request.Pool || kind == request.Network {
		d.Choice = in.Pool + in.Network
		d.Choices, err = s.Options.Choices(c.Request().Context(), a, options.Query{
			Kind: "request-" + string(kind) + "s", ParentID: string(p.Request.ProjectID), Chosen: []string{d.Choice},
			FormAddress: views.RequestPath(p.Request.ID, "decide"), ShowAll: c.QueryParam("all") != "",
		})
		if err != nil {
			return err
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: p.Request.Name}, requestview.DecisionDialog(d))
}

func requestIDFromPath(c echo.Context) request.ID { return request.ID(c.Param("id")) }

// ApproveRequest approves a request.
func (s *Site) ApproveRequest(c echo.Context, a fleet.Actor, in decisionForm) (form.Response, error) {
	id := requestIDFromPath(c)
	r, err := s.Control.ApproveRequest(c.Request().Context(), a, id, requests.Approval{
		Seen: in.seen(), Comment: strings.TrimSpace(in.Comment), PoolID: fleet.PoolID(in.Pool), NetworkID: fleet.NetworkID(in.Network),
	})
	return form.StayOnPage(views.RequestPath(id), "Approved: "+r.Name), err
}

// RefuseRequest refuses a request.
func (s *Site) RefuseRequest(c echo.Context, a fleet.Actor, in decisionForm) (form.Response, error) {
	id := requestIDFromPath(c)
	r, err := s.Control.RefuseRequest(c.Request().Context(), a, id, requests.Refusal{Seen: in.seen(), Comment: strings.TrimSpace(in.Comment)})
	return form.StayOnPage(views.RequestPath(id), "Refused: "+r.Name), err
}

// WithdrawRequest withdraws a request of the actor.
func (s *Site) WithdrawRequest(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := requestIDFromPath(c)
	r, err := s.Control.WithdrawRequest(c.Request().Context(), a, id)
	return form.StayOnPage(views.RequestPath(id), "Withdrawn: "+r.Name), err
}

// newRequestForm is the form of a new request: the limits as typed are under request.LimitField.
type newRequestForm struct{ url.Values }

// ReadForm sets the form to the values that the browser sent.
func (in *newRequestForm) ReadForm(sent url.Values) { in.Values = sent }

// ShowNewRequest shows the dialog of a new request. Without a project, it asks for the project.
func (s *Site) ShowNewRequest(c echo.Context, a fleet.Actor, in newRequestForm, how form.Display) error {
	ctx, id := c.Request().Context(), fleet.ProjectID(c.QueryParam("project"))
	if how.WasRefused() {
		id = fleet.ProjectID(in.Get("projectId"))
	} else {
		in.Values = maps.Clone(c.QueryParams())
	}
	f := requestview.NewForm{Typed: in.Values, Errors: how.Errors}
	if id == "" {
		if err := s.chooseRequestProject(ctx, a, &f); err != nil {
			return err
		}
		id = f.Project.ID
	}
	if id != "" {
		if err := policy.Check(a, policy.VMChange, id); err != nil {
			return err
		}
		var err error
		if f.Project, err = s.Control.GetProject(ctx, a, id); err != nil {
			return err
		}
		use, err := s.Control.ProjectUsage(ctx, a, id)
		if err != nil {
			return err
		}
		f.Rows = requestview.NewLimitRows(use)
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New request"}, requestview.NewDialog(f))
}

// chooseRequestProject sets the project if there is only one, and otherwise the projects to choose from.
func (s *Site) chooseRequestProject(ctx context.Context, a fleet.Actor, f *requestview.NewForm) error {
	all, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListProjects)
	for _, p := range all {
		if policy.May(a, policy.VMChange, p.ID) {
			f.Projects = append(f.Projects, p)
		}
	}
	if len(f.Projects) == 1 {
		f.Project = f.Projects[0]
	}
	return err
}

// CreateRequest asks for quota, a pool or a network.
func (s *Site) CreateRequest(c echo.Context, a fleet.Actor, in newRequestForm) (form.Response, error) {
	want := request.Input{ProjectID: fleet.ProjectID(in.Get("projectId")), Kind: request.Kind(in.Get("kind")), Reason: strings.TrimSpace(in.Get("reason"))}
	var checks fleet.Checks
	if want.Kind != request.Quota {
		want.Text = strings.TrimSpace(in.Get("text"))
	} else {
		want.Limits = map[string]int64{}
		for _, r := range quota.Resources {
			field := request.LimitField(r.Key)
			n, err := peopleview.ParseLimit(r.Unit, in.Get(field))
			switch {
			case err != nil:
				checks.Add(field, "Enter a number that is not negative.")
			case n != nil:
				want.Limits[r.Key] = *n
			}
		}
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	r, err := s.Control.CreateRequest(c.Request().Context(), a, want)
	return form.RedirectTo(views.RequestPath(r.ID)), err
}
