from deployments.cli.main import main
from deployments.kubernetes.cli import app

main(app)
