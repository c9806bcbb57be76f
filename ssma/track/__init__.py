"""MLflow as a view of the records: it can be deleted at any time and filled again from them.

Nothing here imports MLflow when it is imported, and only MLflow's client is used: the fluent interface
(``mlflow.start_run``) keeps one active run per process, which parallel arms would share.
"""
