package form

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

type greetingForm struct {
	Name string `form:"name"`
}

// All forms have the same responses for the same outcomes, with and without JavaScript.
func TestFormErrorsShownWithAndWithoutScripts(t *testing.T) {
	t.Parallel()
	invalid := func() error {
		var c fleet.Checks
		c.Add("name", "Enter a name.")
		return c.Err()
	}()
	conflict, gone := fleet.Errorf(fleet.Conflict, "It is in use."), fleet.Errorf(fleet.NotFound, "There is no such object, or you may not see it.")
	show := func(c echo.Context, _ fleet.Actor, in greetingForm, how Display) error {
		return c.String(how.Status, in.Name+"|"+how.Errors.Form+"|"+how.Errors.Fields["name"])
	}
	for _, x := range []struct {
		name         string
		err          error
		scripts      bool
		show         Renderer[greetingForm]
		status       int
		body, header string // header: "name: value"
		refused      error
	}{
		{"asked", nil, false, show, http.StatusSeeOther, "", "Location: /greeted", nil},
		{"asked by htmx", nil, true, show, http.StatusNoContent, "", "HX-Redirect: /greeted", nil},
		{"invalid", invalid, false, show, http.StatusUnprocessableEntity, "ann|Enter a name.|Enter a name.", "", nil},
		{"invalid by htmx", invalid, true, show, http.StatusUnprocessableEntity, "ann|Enter a name.|Enter a name.", "", nil},
		{"conflict", conflict, false, show, http.StatusConflict, "ann|It is in use.|", "", nil},
		{"conflict by htmx", conflict, true, show, http.StatusUnprocessableEntity, "ann|It is in use.|", "", nil},
		{"error outside the form", gone, false, show, 0, "", "", gone},
		{"button", conflict, true, nil, 0, "", "", conflict},
	} {
		r := httptest.NewRequest(http.MethodPost, "/greetings", strings.NewReader(url.Values{"name": {"ann"}}.Encode()))
		r.Header.Set(echo.HeaderContentType, echo.MIMEApplicationForm)
		if x.scripts {
			r.Header.Set("HX-Request", "true")
		}
		w := httptest.NewRecorder()
		do := func(_ echo.Context, _ fleet.Actor, in greetingForm) (Response, error) {
			if in.Name != "ann" {
				t.Errorf("%s: the decoded form is %+v", x.name, in)
			}
			return RedirectTo("/greeted"), x.err
		}
		err := Submit(do, x.show)(echo.New().NewContext(r, w), fleet.Actor{})
		if err != x.refused { //nolint:errorlint // submit must return the error unchanged
			t.Errorf("%s: %v, want %v", x.name, err, x.refused)
		}
		name, value, _ := strings.Cut(x.header, ": ")
		if x.refused == nil && (w.Code != x.status || w.Body.String() != x.body || w.Header().Get(name) != value) {
			t.Errorf("%s: %d %q %v", x.name, w.Code, w.Body, w.Header())
		}
	}
}

func TestFormShownEmptyBeforeFirstSubmit(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/greetings/new", nil), w)
	err := Show(func(c echo.Context, _ fleet.Actor, in greetingForm, how Display) error {
		if how.WasRefused() || in != (greetingForm{}) {
			t.Errorf("shown with %+v and %+v", in, how)
		}
		return c.NoContent(how.Status)
	})(c, fleet.Actor{})
	if err != nil || w.Code != http.StatusOK {
		t.Errorf("%d, %v", w.Code, err)
	}
}
