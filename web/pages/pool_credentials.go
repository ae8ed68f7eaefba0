package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/web/form"
)

// poolCredentialsForm contains a secret, which no response may repeat.
type poolCredentialsForm struct {
	Secret string `form:"secret"`
}

func (s *Site) ShowPoolCredentialsForm(c echo.Context, a fleet.Actor, _ poolCredentialsForm, how form.Display) error {
	v, err := s.Control.GetPool(c.Request().Context(), a, fleet.PoolID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, poolPageLayout(v), poolview.CredentialsDialog(v, how.Errors))
}

func (s *Site) ChangePoolCredentials(c echo.Context, a fleet.Actor, in poolCredentialsForm) (form.Response, error) {
	id := fleet.PoolID(c.Param("id"))
	tasks, err := s.Control.ChangePoolSecret(c.Request().Context(), a, id, in.Secret)
	return form.StayOnPage(views.PoolPath(id), "The credentials are changed; "+kit.CountText(len(tasks), "host")+" will fetch them."), err
}
