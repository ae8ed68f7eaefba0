package vmpages

import (
	"context"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/request"
	"quantix/internal/vmedit"
	"quantix/views"
	"quantix/views/kit"
	requestview "quantix/views/request"
	vmview "quantix/views/vm"
	"quantix/web/form"
)

// requestVM makes a request for the VM of the form, if new VMs need approval or the user has pressed Request VM. A nil
// response: neither.
func (s *Site) requestVM(ctx context.Context, a fleet.Actor, in url.Values, want control.CreateVM, series vmedit.BulkNames) (form.Response, error) {
	asked := in.Get(vmview.RequestField) != ""
	if !asked {
		needed, err := s.Control.VMNeedsApproval(ctx, a, want.ProjectID)
		if err != nil || !needed {
			return nil, err
		}
	}
	if series.Count > 1 || strings.ContainsAny(want.Name, "{}") {
		var checks fleet.Checks
		checks.Add("name", "Request one VM at a time: enter a name without a counter, and the number 1.")
		return nil, checks.Err()
	}
	reason := strings.TrimSpace(in.Get(vmview.ReasonField))
	type asking struct {
		VM     control.CreateVM
		Reason string
	}
	id, err := createOncePerForm(ctx, s, a, in.Get("key"), asking{want, reason}, func(ctx context.Context) (request.ID, error) {
		r, err := s.Control.RequestVM(ctx, a, want, reason)
		return r.ID, err
	})
	return form.RedirectTo(views.RequestPath(id)), err
}

// moreQuotaPath is the dialog that asks for the quota that the refused VM of the form exceeds; empty: it exceeds none.
func (s *Site) moreQuotaPath(c echo.Context, a fleet.Actor, in url.Values, refused kit.Errors) (string, error) {
	project := fleet.ProjectID(in.Get("projectId"))
	exceeds := false
	for _, text := range refused.Fields {
		exceeds = exceeds || quota.IsExcess(text)
	}
	if !exceeds || project == "" {
		return "", nil
	}
	want, _, err := newVMFromForm(in)
	if err != nil {
		return "", nil //nolint:nilerr // the form shows what is wrong
	}
	lines, err := s.quotaAfter(c, a, want)
	values := url.Values{"kind": {string(request.Quota)}}
	for _, l := range lines {
		if l.IsRefused() && l.Pool == "" {
			values.Set(request.LimitField(l.Key), requestview.LimitText(l.Unit, l.After))
		}
	}
	return requestview.NewPath(project, values), err
}
