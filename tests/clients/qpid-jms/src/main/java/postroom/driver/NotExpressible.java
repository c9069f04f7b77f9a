package postroom.driver;

/** What was asked can't be said through the API of this client. */
final class NotExpressible extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    NotExpressible(String what) {
        super(what);
    }
}
